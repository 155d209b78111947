"use strict";
// Charts of numbers along training, as SVG. A chart is updated with lines: {name, colour, steps, mean, low, high}.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 54, right: 12, top: 10, bottom: 30 };

function element(name, kind, text) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawn(parent, name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.appendChild(made);
  return made;
}

function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-5 || size >= 1e6)) return value.toExponential(2).replace(/-/g, "−");
  return String(Number(value.toPrecision(size >= 1000 ? 6 : 4))).replace(/-/g, "−");
}

function ticks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return found;
}

// Return the exponential moving average, corrected for its start. Gaps stay gaps.
function smoothedLine(values, share) {
  let sum = 0;
  let weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = share * sum + (1 - share) * value;
    weight = share * weight + (1 - share);
    return sum / weight;
  });
}

class Chart {
  constructor(title, unit, caption) {
    this.figure = element("figure", "chart");
    const heading = element("div", "title", title);
    if (unit) heading.append(" ", element("span", "unit", `(${unit})`));
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("role", "img");
    this.svg.setAttribute("aria-label", `${title} along training`);
    this.legend = element("ul", "legend");
    this.tip = element("div", "tip");
    this.tip.hidden = true;
    this.figure.append(heading, this.svg, this.legend, element("figcaption", "", caption), this.tip);
    this.lines = [];
    this.share = 0;
    this.axis = "step";
    this.pointer = null;
    new ResizeObserver(() => this.draw()).observe(this.svg);
    this.svg.addEventListener("pointermove", (event) => { this.pointer = event.offsetX; this.hover(); });
    this.svg.addEventListener("pointerleave", () => { this.pointer = null; this.hover(); });
  }

  update(lines, share, axis) {
    this.lines = lines.map((line) => ({ ...line, shown: share ? smoothedLine(line.mean, share) : line.mean }));
    this.share = share;
    this.axis = axis;
    const named = lines.length > 1 || lines.some((line) => line.always);
    this.legend.replaceChildren(...(named ? lines : []).map((line) => {
      const item = element("li");
      const key = element("span", "key");
      key.style.background = line.dashed ? `repeating-linear-gradient(to right, ${line.colour} 0 4px, transparent 4px 6px)` : line.colour;
      item.append(key, element("span", "", line.name));
      return item;
    }));
    this.draw();
  }

  range() {
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const line of this.lines) {
      left = Math.min(left, line.steps[0]);
      right = Math.max(right, line.steps[line.steps.length - 1]);
      for (const values of this.share ? [line.shown, line.mean] : [line.mean, line.low, line.high]) {
        for (const value of values || []) {
          if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
        }
      }
    }
    if (!(low <= high)) return null;
    const room = high > low ? 0.05 * (high - low) : Math.abs(high) * 0.05 || 0.5;
    return { left, right: right > left ? right : left + 1, low: low - room, high: high + room };
  }

  draw() {
    const width = this.svg.clientWidth;
    const height = this.svg.clientHeight;
    if (!width || !height) return;
    this.svg.replaceChildren();
    const range = this.range();
    this.scales = null;
    if (!range) return;
    const x = (step) => MARGIN.left + ((step - range.left) / (range.right - range.left)) * (width - MARGIN.left - MARGIN.right);
    const y = (value) => height - MARGIN.bottom - ((value - range.low) / (range.high - range.low)) * (height - MARGIN.top - MARGIN.bottom);
    this.scales = { x, y, width, height };
    for (const value of ticks(range.low, range.high, 5)) {
      drawn(this.svg, "line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) });
      drawn(this.svg, "text", { x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }).textContent = number(Number(value.toPrecision(12)));
    }
    for (const step of ticks(range.left, range.right, Math.min(8, width / 60)).filter((one) => Number.isInteger(one))) {
      drawn(this.svg, "line", { class: "grid", x1: x(step), x2: x(step), y1: height - MARGIN.bottom, y2: height - MARGIN.bottom + 4 });
      drawn(this.svg, "text", { x: x(step), y: height - MARGIN.bottom + 15, "text-anchor": "middle" }).textContent = number(step);
    }
    drawn(this.svg, "text", { x: width - MARGIN.right, y: height - 3, "text-anchor": "end" }).textContent = this.axis;
    for (const line of this.lines) {
      if (line.low && !this.share) drawn(this.svg, "path", { class: "band", d: this.band(line), fill: line.colour });
      if (this.share) drawn(this.svg, "path", { class: "raw", d: this.path(line.steps, line.mean), stroke: line.colour });
    }
    for (const line of this.lines) {
      const dash = line.dashed ? { "stroke-dasharray": "6 4" } : {};
      drawn(this.svg, "path", { class: "line", d: this.path(line.steps, line.shown), stroke: line.colour, ...dash });
    }
    this.above = drawn(this.svg, "g", {});
    this.hover();
  }

  path(steps, values) {
    const { x, y } = this.scales;
    // A member that an epoch has not met has no value there. Its line goes on to the next value.
    const met = steps.map((step, i) => [step, values[i]]).filter(([, value]) => value !== null);
    const text = met.map(([step, value], i) => `${i ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    return met.length === 1 ? `${text}h3` : text;
  }

  band(line) {
    const { x, y } = this.scales;
    const met = line.steps.map((step, i) => [step, line.low[i], line.high[i]]).filter(([, low]) => low !== null);
    const there = met.map(([step, , high]) => `${x(step).toFixed(1)} ${y(high).toFixed(1)}`);
    const back = met.reverse().map(([step, low]) => `${x(step).toFixed(1)} ${y(low).toFixed(1)}`);
    return there.length ? `M${[...there, ...back].join("L")}Z` : "";
  }

  // Show the values at the step that is nearest to the pointer.
  hover() {
    if (!this.scales) { this.tip.hidden = true; return; }
    this.above.replaceChildren();
    this.tip.hidden = this.pointer === null;
    if (this.tip.hidden) return;
    const { x, y, width, height } = this.scales;
    let nearest = null;
    for (const line of this.lines) {
      for (const step of line.steps) {
        if (nearest === null || Math.abs(x(step) - this.pointer) < Math.abs(x(nearest) - this.pointer)) nearest = step;
      }
    }
    drawn(this.above, "line", { class: "cross", x1: x(nearest), x2: x(nearest), y1: MARGIN.top, y2: height - MARGIN.bottom });
    this.tip.replaceChildren(element("div", "", `${this.axis} ${nearest}`));
    for (const line of this.lines) {
      const at = line.steps.indexOf(nearest);
      const value = at < 0 ? null : line.shown[at];
      if (value === null) continue;
      drawn(this.above, "circle", { cx: x(nearest), cy: y(value), r: 3.5, fill: line.colour });
      const row = element("div");
      const key = element("span", "key");
      key.style.background = line.colour;
      const low = this.share || !line.low ? null : line.low[at];
      const band = low === null ? "" : ` (${number(low)} to ${number(line.high[at])})`;
      row.append(key, `${line.name}: ${number(value)}${band}`);
      this.tip.append(row);
    }
    const left = x(nearest) < width / 2;
    this.tip.style.left = left ? `${x(nearest) + 12}px` : "auto";
    this.tip.style.right = left ? "auto" : `${width - x(nearest) + 12}px`;
  }
}
