"use strict";
// Replays of trajectories. Each panel of a canvas shows one method in one member, and all panels share one clock.
const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"];
const SPEED = 40; // steps per second

function replay(box, data) {
  const canvas = box.querySelector("canvas");
  const button = box.querySelector("button");
  const slider = box.querySelector("input");
  const output = box.querySelector("output");
  const context = canvas.getContext("2d");
  const panels = data.panels;
  const members = data.members.length;
  const steps = data.steps;
  let time = steps;
  let playing = false;
  let before = null;

  function layout() {
    const width = canvas.clientWidth || 320;
    const gap = 10;
    const title = 20;
    const most = Math.max(1, Math.floor((width + gap) / (members > 4 ? 128 : 170)));
    // The members of a method stay in one row if they fit.
    const columns = members <= most ? Math.min(panels.length, most - (most % members)) : most;
    const side = Math.min(220, (width - gap * (columns - 1)) / columns);
    const height = Math.ceil(panels.length / columns) * (side + title + gap);
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = height + "px";
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return { columns, gap, title, side };
  }

  function draw() {
    const { columns, gap, title, side } = layout();
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "alphabetic";
    panels.forEach((panel, place) => {
      const left = (place % columns) * (side + gap);
      const top = Math.floor(place / columns) * (side + title + gap) + title;
      const at = (x, y) => [left + (x / 1000) * side, top + (1 - y / 1000) * side];
      context.fillStyle = "#1b1f24";
      context.fillText(data.methods[panel.method] + ", " + data.members[panel.member].name, left, top - 6, side);
      context.fillStyle = "#5b6068";
      for (const [x, y, w, h] of data.members[panel.member].walls) {
        const [a, b] = at(x, y + h);
        context.fillRect(a, b, (w / 1000) * side, (h / 1000) * side);
      }
      context.strokeStyle = "#5b6068";
      context.lineWidth = 1;
      context.strokeRect(left + 0.5, top + 0.5, side - 1, side - 1);
      panel.trails.forEach((trail, number) => {
        const end = Math.max(1, Math.min(Math.floor(time), trail.length / 2));
        context.strokeStyle = PALETTE[number % PALETTE.length];
        context.globalAlpha = 0.55;
        context.beginPath();
        for (let i = 0; i < end; i++) {
          const [x, y] = at(trail[2 * i], trail[2 * i + 1]);
          if (i) context.lineTo(x, y); else context.moveTo(x, y);
        }
        context.stroke();
        context.globalAlpha = 1;
        context.fillStyle = context.strokeStyle;
        context.beginPath();
        const [x, y] = at(trail[2 * (end - 1)], trail[2 * (end - 1) + 1]);
        context.arc(x, y, 3.5, 0, 2 * Math.PI);
        context.fill();
      });
    });
    slider.value = String(Math.floor(time));
    output.textContent = "step " + Math.floor(time) + " of " + steps;
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
  window.addEventListener("resize", draw);
  window.addEventListener("beforeprint", () => { pause(); time = steps; draw(); });
  draw();
}

for (const box of document.querySelectorAll(".replay")) {
  replay(box, JSON.parse(box.querySelector("script[type='application/json']").textContent));
}
