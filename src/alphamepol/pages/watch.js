"use strict";
// The page that follows runs. It asks its own server for what is new, and for nothing else.

const EVERY = 2000; // milliseconds between two questions
const KNOWN = {
  objective: ["Objective", "nats", "The mean entropy of the worst α-share of the mini-batches, which training raises.", true],
  return: ["Return", "", "The mean return of the policy that sampled the iteration.", true],
  return_before: ["Return before the inner step", "", "The mean return over tasks before MAML adapts to the task.", true],
  return_after: ["Return after the inner step", "", "The mean return over tasks after MAML has adapted to the task.", true],
  discriminability: ["Discriminability", "nats", "ln q(z|s): how well the skill is told from the states that it visits.", true],
  kl: ["KL divergence", "nats", "From the policy that sampled to the policy after the update. The trust region bounds it.", true],
  effective_share: ["Effective share", "of the samples", "The samples that importance weights leave, in the median mini-batch: 1 at the start of an epoch, less after larger updates.", true],
  seconds: ["Time of a step", "seconds", "Of all seeds or tasks together, without compilation.", true],
  mean_entropy: ["Mean entropy", "nats", "The mean entropy of all mini-batches, worst or not."],
  objective_after: ["Objective after the update", "nats", "Estimated from the same samples by importance weights."],
  iterations: ["Accepted updates", "in an epoch", "Off-policy updates inside the trust region."],
  backtracks: ["Undone updates", "in an epoch", "Updates that left the trust region."],
  feature_noise: ["Noise on particles", "particle units", "Added because particles coincided."],
  improvement: ["Improvement", "", "Of the surrogate objective."],
  step: ["Step", "of the full one", "The fraction of the full step that the line search took."],
  critic_loss: ["Loss of the critic", "", ""],
};
const MOST = 8; // runs that are shown side by side
const stores = new Map(); // what is known of each run, by its key
const charts = new Map(); // the charts of all runs together, by field
const items = new Map(); // the lines of the list of runs, by the keys of runs
const columns = new Map(); // the parts of the page about one run, by its key
const byId = (id) => document.getElementById(id);
let chosen = []; // the keys of the chosen runs, in the order of their colours
let begun = false; // whether there was a run to choose
let newest = [];
let notice = "";
let paused = false;
let timer = null;
let asking = false;

function colour(key) {
  return `var(--c${chosen.indexOf(key) % 8})`;
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

async function ask() {
  clearTimeout(timer);
  if (paused || asking) return;
  asking = true;
  let wait = document.hidden ? 5 * EVERY : EVERY;
  try {
    const words = chosen.map((key) => {
      const known = stores.get(key) || { generation: 0, fixed: 0, version: "" };
      return `of=${key}.${known.generation}.${known.fixed}.${known.version}`;
    });
    const answer = await fetch(`news?${words.join("&")}`, { cache: "no-store", redirect: "error" });
    if (!answer.ok) throw new Error("refused");
    const news = await answer.json();
    if (!paused) show(news);
    if (news.runs.some((run) => run.read < 1) || Object.keys(news.of).length < chosen.length) wait = 300;
    live("on", "following");
  } catch (error) {
    live("off", "The server does not answer. The page asks again.");
  }
  asking = false;
  if (!paused) timer = setTimeout(ask, wait);
}

function live(kind, text) {
  byId("live").className = kind;
  if (byId("live").textContent !== text) byId("live").textContent = text;
}

function show(news) {
  newest = news.runs;
  notice = news.notice;
  const there = new Set(newest.map((run) => run.key));
  if (!begun && newest.length) {
    begun = true;
    const asked = location.hash.slice(1).split(",").filter((key) => there.has(key));
    chosen = asked.length ? asked : newest.slice(0, 2).map((run) => run.key);
  }
  chosen = chosen.filter((key) => there.has(key));
  for (const [key, of] of Object.entries(news.of)) take(key, of);
  showRuns();
  showChosen();
}

// Take the new points of a run. Earlier points stay, unless the server says that they have changed.
function take(key, { curves, places }) {
  const store = stores.get(key) || { steps: [], series: new Map(), version: "" };
  stores.set(key, store);
  store.steps.length = curves.start;
  store.steps.push(...curves.steps);
  const extended = (values, more) => {
    while (values.length < curves.start) values.push(null);
    values.length = curves.start;
    values.push(...more);
  };
  if (curves.start === 0) store.series.clear();
  for (const curve of curves.curves) {
    const name = JSON.stringify([curve.field, curve.part]);
    if (!store.series.has(name)) store.series.set(name, { field: curve.field, part: curve.part, mean: [], low: [], high: [] });
    const series = store.series.get(name);
    extended(series.mean, curve.mean);
    extended(series.low, curve.low || curve.mean);
    extended(series.high, curve.high || curve.mean);
  }
  Object.assign(store, { generation: curves.generation, fixed: curves.fixed, stride: curves.stride, fresh: true });
  store.places = places;
  store.version = places.version;
}

function showRuns() {
  const words = byId("find").value.toLowerCase().split(/\s+/);
  const shown = newest.filter((run) => {
    const text = [run.name, run.command, run.class, run.state, ...run.settings].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  byId("hint").textContent = newest.length === 0
    ? "There is no run in this folder yet. A run appears here as soon as it begins."
    : `${notice ? `${notice} ` : ""}Choose up to ${MOST} runs to see them side by side.`;
  byId("search").hidden = newest.length < 6;
  // Items stay the same elements, so that a click between two answers is not lost.
  for (const run of shown) if (!items.has(run.key)) items.set(run.key, runItem(run));
  for (const run of shown) updateItem(items.get(run.key), run);
  arrange(byId("runs"), shown.map((run) => items.get(run.key).item));
  const training = newest.filter((run) => run.state === "training");
  const [first] = training;
  document.title = first && first.total ? `${Math.round((100 * first.done) / first.total)} % – αMEPOL` : "αMEPOL: runs";
}

function runItem(run) {
  const made = { item: element("li"), box: element("input"), swatch: element("span", "swatch"), progress: element("span", "progress"), problem: element("span", "problem") };
  const label = element("label");
  const about = element("span");
  made.box.type = "checkbox";
  made.box.addEventListener("change", () => choose(run.key, made.box.checked));
  about.append(element("span", "name", run.name), " ", element("span", "words", wordsOf(run)));
  label.append(made.box, made.swatch, about, made.progress, made.problem);
  made.item.append(label);
  return made;
}

function wordsOf(run) {
  return [run.command, run.class, ...run.settings].filter(Boolean).join(" · ");
}

function updateItem(made, run) {
  made.box.checked = chosen.includes(run.key);
  made.box.disabled = !made.box.checked && chosen.length >= MOST;
  made.swatch.style.background = made.box.checked ? colour(run.key) : "transparent";
  made.problem.textContent = run.problem;
  const silent = run.state === "silent";
  const parts = [element("span", `state ${run.state}`, silent ? `no news for ${duration(run.seconds_since)}` : run.state)];
  if (run.read < 1) parts.push(` · reading ${Math.round(100 * run.read)} %`);
  if (run.done) {
    const left = run.state === "training" && run.seconds_left !== null ? `, about ${duration(run.seconds_left)} left` : "";
    const bar = element("progress");
    Object.assign(bar, { max: run.total || run.done, value: run.done });
    bar.setAttribute("aria-label", "steps done");
    parts.push(` · ${run.done}${run.total === null ? "" : ` of ${run.total}`} ${run.unit}s${left}`, bar);
  }
  made.progress.replaceChildren(...parts);
  made.progress.title = silent ? "The run may have been stopped. Its command with --resume continues it." : "";
}

function choose(key, on) {
  chosen = on ? [...chosen, key] : chosen.filter((one) => one !== key);
  history.replaceState(null, "", `#${chosen.join()}`);
  for (const store of stores.values()) store.fresh = true; // colours may have changed
  showRuns();
  showChosen();
  ask();
}

function showChosen() {
  const runs = chosen.map((key) => newest.find((run) => run.key === key)).filter((run) => run && stores.has(run.key));
  byId("apart").hidden = runs.length === 0;
  byId("together").hidden = !runs.some((run) => run.done);
  showTogether(runs);
  showApart(runs);
  for (const run of runs) stores.get(run.key).fresh = false;
}

function smoothing() {
  return Number(byId("smooth").value) / 100;
}

function axisOf(runs) {
  return [...new Set(runs.map((run) => run.unit).filter(Boolean))].join(" or ") || "step";
}

function showTogether(runs) {
  const fields = new Map();
  for (const run of runs) {
    const store = stores.get(run.key);
    for (const series of store.series.values()) {
      if (series.part || !series.mean.some((value) => value !== null)) continue;
      if (!fields.has(series.field)) fields.set(series.field, []);
      fields.get(series.field).push(lineOf(series, store, run.name, colour(run.key), { always: runs.length > 1 }));
    }
  }
  const order = [...Object.keys(KNOWN), ...fields.keys()];
  const shown = [...new Set(order)].filter((field) => fields.has(field));
  const parts = { main: [], more: [] };
  for (const field of shown) {
    const [title, unit, caption, main] = Object.hasOwn(KNOWN, field) ? KNOWN[field] : [field, "", ""];
    if (!charts.has(field)) charts.set(field, new Chart(title, unit, caption));
    parts[main ? "main" : "more"].push(charts.get(field).figure);
  }
  arrange(byId("main-charts"), parts.main);
  arrange(byId("more-charts"), parts.more);
  byId("more").hidden = parts.more.length === 0;
  for (const field of shown) charts.get(field).update(fields.get(field), smoothing(), axisOf(runs));
}

// Put the figures into a box, without touching it if they are there already.
function arrange(box, figures) {
  if (box.children.length !== figures.length || figures.some((one, i) => box.children[i] !== one)) box.replaceChildren(...figures);
}

function lineOf(series, store, name, shade, more) {
  const several = series.low.some((value, i) => value !== series.mean[i]);
  return { name, colour: shade, steps: store.steps, mean: series.mean, low: several ? series.low : null, high: several ? series.high : null, ...more };
}

function showApart(runs) {
  const caption = "The mean entropy of the mini-batches in each member, one colour a member, and the objective as a dashed line. A higher entropy is a more even exploration.";
  for (const run of runs) {
    const store = stores.get(run.key);
    if (!columns.has(run.key)) {
      const box = element("section", "run");
      const column = { box, swatch: element("span", "swatch"), chart: new Chart("Entropy in each member", "nats", caption), places: new Places(), stride: element("p", "soft") };
      const heading = element("h3");
      heading.append(column.swatch, element("span", "", run.name));
      box.append(heading, element("p", "soft", wordsOf(run)), column.chart.figure, column.stride, column.places.box);
      columns.set(run.key, column);
    }
    const column = columns.get(run.key);
    column.swatch.style.background = colour(run.key);
    const lines = [...store.series.values()].filter((series) => series.field === "entropy" && series.part)
      .map((series, i) => lineOf(series, store, series.part, `var(--c${i % 8})`, { always: true }));
    const objective = store.series.get(JSON.stringify(["objective", ""]));
    if (lines.length && objective) lines.push(lineOf(objective, store, "objective", "var(--ink)", { dashed: true, low: null, high: null }));
    column.chart.figure.hidden = lines.length === 0;
    column.chart.update(lines, smoothing(), axisOf([run]));
    column.stride.textContent = !store.steps.length ? "The first numbers come after the first step." : store.stride > 1 ? `Of this long run, every ${store.stride}th ${run.unit} is drawn.` : "";
    if (store.shown !== store.places) column.places.update(store.places);
    store.shown = store.places;
  }
  arrange(byId("columns"), runs.map((run) => columns.get(run.key).box));
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").textContent = paused ? "Go on" : "Pause";
  byId("pause").setAttribute("aria-pressed", String(paused));
  if (paused) { clearTimeout(timer); live("", "paused"); } else ask();
});
byId("smooth").addEventListener("input", () => {
  byId("smoothed").textContent = smoothing() ? `${byId("smooth").value} %` : "off";
  showChosen();
});
byId("find").addEventListener("input", () => { showRuns(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const column of columns.values()) column.places.draw(); });
window.addEventListener("scroll", () => { for (const column of columns.values()) if (column.box.isConnected) column.places.draw(); }, { passive: true });
ask();
