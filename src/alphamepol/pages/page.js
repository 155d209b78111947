"use strict";
// The page can be read without this script. It adds values under the pointer, the choice of series, and modes.
const redraws = [];

function element(tag, parent, words, attributes) {
  const made = document.createElement(tag);
  if (words) made.textContent = words;
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  if (parent) parent.append(made);
  return made;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Values under the pointer.
const tip = element("div", document.body, "", { id: "tip", role: "status", hidden: "" });

function tell(words, event) {
  tip.hidden = !words;
  if (!words) return;
  tip.textContent = words;
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = Math.max(4, Math.min(event.pageX + 14, room)) + "px";
  tip.style.top = event.pageY + 16 + "px";
}

function valuesAt(svg, event) {
  const part = event.target.closest("[data-values]");
  if (part && !part.dataset.values.startsWith("[")) return part.dataset.values;
  const found = [];
  for (const line of svg.querySelectorAll("[data-values^='[']")) {
    const box = line.getBoundingClientRect();
    if (!box.width || event.clientX < box.left - 4 || event.clientX > box.right + 4) continue;
    const words = JSON.parse(line.dataset.values);
    const share = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    found.push(words[Math.round(share * (words.length - 1))]);
  }
  return found.join("\n");
}

for (const svg of document.querySelectorAll("figure > svg")) {
  svg.addEventListener("pointermove", (event) => tell(valuesAt(svg, event), event));
  svg.addEventListener("pointerleave", () => tell(""));
  const series = [...new Set([...svg.querySelectorAll("[data-series]")].map((part) => part.dataset.series))];
  if (series.length < 3) continue;
  const choices = element("div", null, "", { class: "choices many", role: "group", "aria-label": "choose what is shown" });
  for (const name of series) {
    const button = element("button", choices, name, { type: "button", "aria-pressed": "true" });
    button.addEventListener("click", () => {
      const off = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!off));
      for (const part of svg.querySelectorAll("[data-series]")) {
        if (part.dataset.series === name) part.toggleAttribute("data-off", off);
      }
    });
  }
  svg.before(choices);
}

// Folds draw what they hide when they open.
function redraw() { redraws.forEach((draw) => draw()); }
for (const fold of document.querySelectorAll("details.fold")) fold.addEventListener("toggle", () => { if (fold.open) redraw(); });
window.addEventListener("resize", redraw);

// The mode: the reader's system decides until the button is pressed.
const root = document.documentElement;
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const mode = document.getElementById("mode");
function isDark() { return root.dataset.mode ? root.dataset.mode === "dark" : prefersDark.matches; }
function showMode() { mode.textContent = isDark() ? "Light" : "Dark"; redraw(); }
mode.hidden = false;
mode.addEventListener("click", () => { root.dataset.mode = isDark() ? "light" : "dark"; showMode(); });
prefersDark.addEventListener("change", showMode);
showMode();

// A print is light, and has the claims and figures that are folded, but not the settings of runs.
let folded = [];
let modeBefore;
window.addEventListener("beforeprint", () => {
  modeBefore = root.dataset.mode;
  root.dataset.mode = "light";
  folded = [...document.querySelectorAll("details.fold:not([open])")];
  folded.forEach((fold) => { fold.open = true; });
  redraw();
});
window.addEventListener("afterprint", () => {
  folded.forEach((fold) => { fold.open = false; });
  if (modeBefore) root.dataset.mode = modeBefore; else delete root.dataset.mode;
  redraw();
});
// A link to a folded part opens it.
window.addEventListener("hashchange", () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target && target.closest("details");
  if (fold) { fold.open = true; target.scrollIntoView(); }
});
