"use strict";
// Where policies go: each panel is a map with a heat-map, on which trajectories move. The panels of a run share a clock.

const SECONDS = 12; // of a whole replay
const still = window.matchMedia("(prefers-reduced-motion: reduce)");

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function mixed(low, high, share) {
  const parts = (colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  const [from, to] = [parts(low), parts(high)];
  return from.map((one, i) => Math.round(one + share * (to[i] - one)));
}

// Shares are given in parts per million.
function percent(share) {
  return String(Number((share / 1e4).toPrecision(2)));
}

class Places {
  constructor() {
    this.box = element("div", "places");
    this.note = element("p", "soft");
    this.controls = element("div", "controls replaying");
    this.button = element("button", "", "Play");
    this.button.type = "button";
    this.slider = element("input");
    Object.assign(this.slider, { type: "range", min: 1, max: 1, value: 1 });
    this.slider.setAttribute("aria-label", "time step of the replay");
    this.output = element("output");
    this.view = element("select");
    this.view.setAttribute("aria-label", "what the maps show");
    for (const name of ["trails and heat-map", "trails", "heat-map"]) this.view.append(element("option", "", name));
    this.controls.append(this.button, this.slider, this.output, this.view);
    this.grid = element("div", "panels");
    this.caption = element("p", "soft");
    this.box.append(element("div", "title", "Where the newest policy goes"), this.controls, this.grid, this.caption, this.note);
    this.button.addEventListener("click", () => this.play(!this.playing));
    this.slider.addEventListener("input", () => { this.play(false); this.time = Number(this.slider.value); this.draw(); });
    this.view.addEventListener("change", () => this.draw());
    this.resizing = new ResizeObserver(() => this.draw());
    this.resizing.observe(this.grid);
    this.picture = null;
    this.playing = false;
    this.controls.hidden = true;
  }

  update(places) {
    this.note.textContent = places.coming ? "The newest policy is acting in the members; its trails come soon." : places.sentence;
    if (!places.picture) return;
    this.picture = places.picture;
    const { panels, steps, stride, names, left_out: left, source } = this.picture;
    this.controls.hidden = false;
    this.slider.max = steps;
    this.time = this.time === undefined ? 1 : Math.min(this.time, steps);
    this.panels = panels.map((panel) => this.panel(panel));
    this.grid.replaceChildren(...this.panels.map((panel) => panel.figure));
    const from = source === "evaluation" ? "the final policies, from the evaluation of the run" : `the policy after ${source}, from fresh samples`;
    const thinned = stride > 1 ? ` Every ${stride}th step is drawn.` : "";
    const rest = left ? ` ${left} more are not shown.` : "";
    const largest = Math.max(1, ...panels.map((panel) => (panel.shares ? Math.max(...panel.shares.flat()) : 0)));
    this.largest = largest;
    this.caption.replaceChildren(
      `Places of ${from}: ${names[0]} to the right, ${names[1]} upwards. Each line is one trajectory, bold where it went last; a dot is the agent.${panels.some((panel) => panel.goal) ? " A ring is the goal, where an episode ends." : ""} The shade is the share of time, on a log scale: `,
      `${percent(largest / 1e3)} %`, element("span", "scale"), `${percent(largest)} %.${thinned}${rest}`);
    if (this.playing === false && !this.begun) { this.begun = true; this.play(!still.matches); }
    this.draw();
  }

  panel(data) {
    const figure = element("figure", "panel");
    const canvas = element("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `places in ${data.title}`);
    const caption = element("figcaption");
    const value = element("span");
    const [west, east, south, north] = (data.map || this.picture).extent;
    const ends = `${this.picture.names[0]} ${number(west)} to ${number(east)}, ${this.picture.names[1]} ${number(south)} to ${number(north)}`;
    value.textContent = ends;
    caption.append(element("div", "member", data.title), value);
    figure.append(canvas, caption);
    const made = { data, figure, canvas, extent: [west, east, south, north] };
    canvas.addEventListener("pointermove", (event) => {
      const x = west + (event.offsetX / canvas.clientWidth) * (east - west);
      const y = north + (event.offsetY / canvas.clientHeight) * (south - north);
      value.textContent = `${number(Number(x.toPrecision(3)))}, ${number(Number(y.toPrecision(3)))}: ${this.shareAt(data, x, y)}`;
    });
    canvas.addEventListener("pointerleave", () => { value.textContent = ends; });
    return made;
  }

  shareAt(data, x, y) {
    const [west, east, south, north] = this.picture.extent;
    if (!data.shares) return "";
    const row = Math.floor(((y - south) / (north - south)) * data.shares.length);
    const column = Math.floor(((x - west) / (east - west)) * data.shares[0].length);
    const share = (data.shares[row] || [])[column];
    return share ? `${percent(share)} % of the time` : "not visited";
  }

  play(on) {
    this.playing = on;
    this.button.textContent = on ? "Stop" : "Play";
    if (!on) return;
    if (this.time >= this.picture.steps) this.time = 1;
    let before = null;
    const tick = (now) => {
      if (!this.playing || !this.box.isConnected) { this.playing = false; this.button.textContent = "Play"; return; }
      const steps = this.picture.steps;
      if (before !== null) this.time += ((now - before) / 1000) * Math.max(20, steps / SECONDS);
      before = now;
      if (this.time >= steps) this.time = 1; // and again
      this.draw();
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  draw() {
    if (!this.picture) return;
    this.slider.value = String(Math.floor(this.time));
    this.output.textContent = `step ${Math.floor(this.time)} of ${this.picture.steps}`;
    const edges = this.grid.getBoundingClientRect();
    if (edges.bottom < 0 || edges.top > window.innerHeight) return; // nobody sees it
    const colours = ["--c1", "--c3", "--c2", "--c4", "--c6"].map(cssColour);
    const common = { colours, wall: cssColour("--wall"), paper: cssColour("--wash"), ink: cssColour("--ink"), line: cssColour("--line"), heat: [cssColour("--heat-low"), cssColour("--heat-high")] };
    for (const panel of this.panels) this.drawPanel(panel, common);
  }

  drawPanel(panel, common) {
    const { canvas, data } = panel;
    const [west, east, south, north] = panel.extent;
    const width = canvas.clientWidth;
    if (!width) return;
    const height = data.map ? Math.min(width * 1.6, Math.max(40, (width * Math.abs(north - south)) / (east - west))) : width;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = common.paper;
    context.fillRect(0, 0, width, height);
    const at = (x, y) => [((x - west) / (east - west)) * width, height - ((y - south) / (north - south)) * height];
    if (this.view.value !== "trails" && data.shares) this.drawHeat(context, data, at, common.heat);
    for (const [kind, x, y, w, h] of data.map ? data.map.patches : []) {
      const [a, b] = at(x, y);
      const [c, d] = at(x + w, y + h);
      // Whole pixels leave no seams between the cells of a wall.
      const [left, top] = [Math.round(Math.min(a, c)), Math.round(Math.min(b, d))];
      const corner = [left, top, Math.round(Math.max(a, c)) - left, Math.round(Math.max(b, d)) - top];
      context.fillStyle = common.wall;
      context.strokeStyle = kind === "goal" ? common.colours[1] : common.wall;
      if (kind === "wall") context.fillRect(...corner); else context.strokeRect(...corner);
    }
    if (data.goal) {
      const [a, b] = at(data.goal[0], data.goal[1]);
      context.strokeStyle = common.ink;
      context.beginPath();
      context.arc(a, b, Math.max(3, Math.abs((data.goal[2] / (east - west)) * width)), 0, 2 * Math.PI);
      context.stroke();
    }
    if (this.view.value !== "heat-map") this.drawTrails(context, data, at, common.colours, common.paper);
    context.strokeStyle = common.line;
    context.strokeRect(0.5, 0.5, width - 1, height - 1);
  }

  drawHeat(context, data, at, heat) {
    const [west, east, south, north] = this.picture.extent;
    const rows = data.shares.length;
    const columns = data.shares[0].length;
    data.shares.forEach((row, r) => row.forEach((share, c) => {
      if (!share) return;
      const bright = Math.max(0, 1 + Math.log10(share / this.largest) / 3);
      context.fillStyle = `rgb(${mixed(heat[0], heat[1], bright).join()})`;
      const [a, b] = at(west + (c * (east - west)) / columns, south + (r * (north - south)) / rows);
      const [d, e] = at(west + ((c + 1) * (east - west)) / columns, south + ((r + 1) * (north - south)) / rows);
      context.fillRect(Math.floor(Math.min(a, d)), Math.floor(Math.min(b, e)), Math.ceil(Math.abs(d - a)) + 1, Math.ceil(Math.abs(e - b)) + 1);
    }));
  }

  drawTrails(context, data, at, colours, paper) {
    data.trails.forEach((trail, number) => {
      const end = Math.max(1, Math.min(1 + Math.floor((this.time - 1) / this.picture.stride), trail.length / 2));
      if (!trail.length) return;
      context.strokeStyle = colours[number % colours.length];
      const recent = Math.max(0, end - Math.ceil(trail.length / 2 / 10));
      for (const [from, width, alpha] of [[0, 1, 0.35], [recent, 2, 1]]) {
        context.beginPath();
        for (let i = from; i < end; i++) context.lineTo(...at(trail[2 * i], trail[2 * i + 1]));
        context.lineWidth = width;
        context.globalAlpha = alpha;
        context.stroke();
      }
      context.beginPath();
      context.arc(...at(trail[2 * end - 2], trail[2 * end - 1]), 4, 0, 2 * Math.PI);
      context.fillStyle = colours[number % colours.length];
      context.strokeStyle = paper;
      context.fill();
      context.stroke();
    });
  }
}
