// Heat-maps with a slider, and replays. It needs page.js, which comes first.
const SPEED = 40; // steps per second of a replay
const TRAIL_COLOURS = ["--c0", "--c1", "--c2"];

// Panels: a small canvas for each member, with coordinates from 0 to 1000.
function makePanel(parent, member, members) {
  const panel = element("figure", parent, "", { class: "panel" });
  panel.style.width = members <= 2 ? "13.2rem" : members <= 4 ? "11rem" : "9.5rem";
  const title = element("div", panel, member.name);
  const note = element("span", title);
  const canvas = element("canvas", panel, "", { role: "img", "aria-label": member.name });
  canvas.style.aspectRatio = String(1 / member.height);
  return { canvas, note, member };
}

function paper(panel) {
  const { canvas, member } = panel;
  const width = Math.round((canvas.clientWidth || 160) * Math.min(3, Math.max(2, window.devicePixelRatio || 1)));
  const height = Math.round(width * member.height);
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, width, height);
  return { pen, width, height, at: (x, y) => [(x / 1000) * width, (1 - y / 1000) * height] };
}

function drawGround(panel, { pen, width, height, at }) {
  for (const [x, y, w, h, kind] of panel.member.patches) {
    const [a, b] = at(x, y + h);
    const box = [a, b, (w / 1000) * width, (h / 1000) * height];
    pen.fillStyle = pen.strokeStyle = kind === "door" ? colour("--c4") : kind === "goal" ? colour("--c3") : colour("--wall");
    pen.lineWidth = kind === "door" ? 4 : 1.5;
    if (kind === "wall") pen.fillRect(...box); else pen.strokeRect(...box);
  }
  pen.strokeStyle = colour("--wall");
  pen.lineWidth = 2;
  pen.strokeRect(1, 1, width - 2, height - 2);
}

function percent(share) {
  return share >= 0.1 ? Math.round(100 * share) + " %" : Number((100 * share).toPrecision(2)) + " %";
}

// Heat-maps of one method at a time. In classes of few members, the first method stays beside it.
function heatMaps(box, data) {
  const dial = data.methods.map((one, i) => i).filter((i) => data.methods[i].alpha !== null);
  let chosen = data.start;
  const shares = data.methods.map((one) => one.shares.map((text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0))));
  const shareOf = (level) => data.least * (Math.max(data.most, 2 * data.least) / data.least) ** ((level - 1) / 254);
  let slider = null;
  let output = null;
  if (dial.length > 1) {
    const controls = element("div", box, "", { class: "controls" });
    element("span", controls, "α = " + data.methods[dial[0]].alpha, { class: "ends" });
    slider = element("input", controls, "", { type: "range", min: 0, max: dial.length - 1, step: 1, "aria-label": "α, the share of the worst outcomes that training looks at" });
    element("span", controls, "α = " + data.methods[dial[dial.length - 1]].alpha, { class: "ends" });
    output = element("output", controls, "", { "aria-live": "off" });
    slider.addEventListener("input", () => choose(dial[Number(slider.value)]));
  }
  const choices = element("div", box, "", { class: "choices", role: "group", "aria-label": "choose a method" });
  const buttons = data.methods.map((one, i) => {
    if (data.methods.length === 1 || (slider && dial.includes(i))) return null;
    const button = element("button", choices, one.label, { type: "button" });
    button.addEventListener("click", () => choose(i));
    return button;
  });
  if (slider && choices.firstChild) choices.prepend(element("span", null, "or show"));
  const groups = element("div", box, "", { class: "rows" });
  const beside = data.start > 0 && data.members.length <= 2 ? [0, null] : [null];
  const rows = beside.map((fixed) => {
    const row = element("div", groups);
    const title = element("div", row, "", { class: "row", "aria-live": fixed === null ? "polite" : "off" });
    const grid = element("div", row, "", { class: "panels" });
    const panels = data.members.map((member) => makePanel(grid, member, data.members.length));
    panels.forEach((panel, i) => tellShares(panel, i, () => fixed ?? chosen));
    return { fixed, title, panels };
  });
  const scale = element("div", box, "", { class: "scale" });
  element("span", scale, "share of time in a cell: " + percent(data.least) + " or less");
  const bar = element("canvas", scale, "", { width: 256, height: 1, "aria-hidden": "true" });
  element("span", scale, percent(data.most) + " (log scale); empty: never");
  const note = element("p", box, "", { class: "soft" });

  function draw() {
    for (const { fixed, title, panels } of rows) {
      const method = data.methods[fixed ?? chosen];
      title.textContent = method.alpha === null ? method.label : "α = " + method.alpha + ": " + method.label.split(" (")[0];
      panels.forEach((panel, i) => {
        drawShares(panel, shares[fixed ?? chosen][i]);
        panel.note.textContent = method.captions[i];
      });
    }
    const pen = bar.getContext("2d");
    HEAT.forEach((one, i) => { pen.fillStyle = one; pen.fillRect(i, 0, 1, 1); });
  }

  function drawShares(panel, levels) {
    const page = paper(panel);
    const [west, east, south, north] = data.extent;
    const ends = panel.member.extent;
    const place = (x, y) => page.at((1000 * (x - ends[0])) / (ends[1] - ends[0]), (1000 * (y - ends[2])) / (ends[3] - ends[2]));
    levels.forEach((level, cell) => {
      if (!level) return;
      const row = Math.floor(cell / data.columns);
      const column = cell % data.columns;
      const [a, b] = place(west + ((east - west) * column) / data.columns, south + ((north - south) * (row + 1)) / data.rows);
      const [c, d] = place(west + ((east - west) * (column + 1)) / data.columns, south + ((north - south) * row) / data.rows);
      page.pen.fillStyle = HEAT[level];
      page.pen.fillRect(Math.floor(a), Math.floor(b), Math.ceil(c) - Math.floor(a), Math.ceil(d) - Math.floor(b));
    });
    drawGround(panel, page);
  }

  function choose(i) {
    chosen = i;
    buttons.forEach((button, j) => button && button.setAttribute("aria-pressed", String(i === j)));
    if (slider) {
      const alpha = data.methods[i].alpha;
      if (dial.includes(i)) slider.value = String(dial.indexOf(i));
      output.textContent = alpha === null ? "" : "now α = " + alpha;
    }
    note.textContent = data.methods[i].note;
    note.hidden = !data.methods[i].note;
    draw();
  }

  function tellShares(panel, i, method) {
    panel.canvas.addEventListener("pointerleave", () => tell(""));
    panel.canvas.addEventListener("pointermove", (event) => {
      const area = panel.canvas.getBoundingClientRect();
      const ends = panel.member.extent;
      const x = ends[0] + ((ends[1] - ends[0]) * (event.clientX - area.left)) / area.width;
      const y = ends[3] + ((ends[2] - ends[3]) * (event.clientY - area.top)) / area.height;
      const column = Math.floor(((x - data.extent[0]) / (data.extent[1] - data.extent[0])) * data.columns);
      const row = Math.floor(((y - data.extent[2]) / (data.extent[3] - data.extent[2])) * data.rows);
      const inside = column >= 0 && row >= 0 && column < data.columns && row < data.rows;
      const level = inside ? shares[method()][i][row * data.columns + column] : 0;
      const where = data.axes[0] + " " + x.toFixed(2) + ", " + data.axes[1] + " " + y.toFixed(2);
      tell(where + "\n" + (level ? "about " + percent(shareOf(level)) + " of the time" : "never"), event);
    });
  }

  redraws.push(draw);
  choose(chosen);
}

// Replays: the panels of all chosen methods share one clock.
function replay(box, data) {
  const steps = data.steps;
  const controls = element("div", box, "", { class: "controls" });
  const button = element("button", controls, "Play", { type: "button" });
  const slider = element("input", controls, "", { type: "range", min: 1, max: steps, value: steps, "aria-label": "time step" });
  const output = element("output", controls, "", { "aria-live": "off" });
  const choices = element("div", box, "", { class: "choices many", role: "group", "aria-label": "choose methods" });
  const groups = element("div", box, "", { class: "rows" });
  let time = steps;
  let playing = false;
  let before = null;
  const rows = data.methods.map((label, method) => {
    const row = element("div", groups);
    element("div", row, label, { class: "row" });
    const grid = element("div", row, "", { class: "panels" });
    const panels = data.panels.filter((one) => one.method === method);
    if (data.methods.length > 1) {
      const choice = element("button", choices, label, { type: "button", "aria-pressed": "true" });
      row.hidden = !data.shown.includes(method);
      choice.setAttribute("aria-pressed", String(!row.hidden));
      choice.addEventListener("click", () => {
        row.hidden = !row.hidden;
        choice.setAttribute("aria-pressed", String(!row.hidden));
        draw();
      });
    }
    return { row, panels: panels.map((one) => ({ ...makePanel(grid, data.members[one.member], data.members.length), trails: one.trails })) };
  });

  function draw() {
    for (const { row, panels } of rows) {
      if (!row.hidden) panels.forEach(drawTrails);
    }
    slider.value = String(Math.floor(time));
    output.textContent = "step " + Math.floor(time) + " of " + steps;
  }

  function drawTrails(panel) {
    const page = paper(panel);
    const { pen, at } = page;
    drawGround(panel, page);
    panel.trails.forEach((trail, number) => {
      if (!trail.length) return;
      const end = Math.max(1, Math.min(Math.floor(time), trail.length / 2));
      pen.strokeStyle = pen.fillStyle = colour(TRAIL_COLOURS[number % TRAIL_COLOURS.length]);
      pen.lineWidth = 2;
      pen.globalAlpha = 0.6;
      pen.beginPath();
      for (let i = 0; i < end; i++) {
        const [x, y] = at(trail[2 * i], trail[2 * i + 1]);
        if (i) pen.lineTo(x, y); else pen.moveTo(x, y);
      }
      pen.stroke();
      pen.globalAlpha = 1;
      pen.beginPath();
      pen.arc(...at(trail[0], trail[1]), 6, 0, 2 * Math.PI);
      pen.stroke();
      const [x, y] = at(trail[2 * (end - 1)], trail[2 * (end - 1) + 1]);
      pen.beginPath();
      pen.arc(x, y, 7, 0, 2 * Math.PI);
      pen.fill();
    });
  }

  function tick(now) {
    if (!playing) return;
    if (before !== null) time += ((now - before) / 1000) * SPEED;
    before = now;
    if (time >= steps) { time = steps; pause(); }
    draw();
    if (playing) requestAnimationFrame(tick);
  }

  function pause() {
    playing = false;
    before = null;
    button.textContent = "Play";
  }

  button.addEventListener("click", () => {
    if (playing) { pause(); return; }
    if (time >= steps) time = 1;
    playing = true;
    button.textContent = "Pause";
    requestAnimationFrame(tick);
  });
  slider.addEventListener("input", () => { pause(); time = Number(slider.value); draw(); });
  window.addEventListener("beforeprint", () => { pause(); time = steps; draw(); });
  redraws.push(draw);
  draw();
}

for (const box of document.querySelectorAll(".widget")) {
  const data = JSON.parse(box.querySelector("script[type='application/json']").textContent);
  (box.dataset.kind === "maps" ? heatMaps : replay)(box, data);
}
