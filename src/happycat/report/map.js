/* The map: a canvas with one mark for each image. */

/** The map in `section`. `marks`: class → {colour, shape, kind, name}; `tip` shows and hides the note on an image. */
function makeMap(section, dots, marks, tip) {
  const canvas = section.querySelector("canvas");
  const painter = makePainter(canvas, marks);
  const { context, colour } = painter;
  const size = dots.path.length;
  const keys = dots.cls.map((id) => id ?? NONE);
  const rank = (i) => ["known", "none", "new"].indexOf(marks.get(keys[i]).kind);
  const order = Array.from({ length: size }, (_, i) => i).sort((a, b) => rank(a) - rank(b) || a - b);
  const unit = (values) => {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
    return values.map((value) => (high > low ? (value - low) / (high - low) : 0.5));
  };
  const [across, down] = [unit(dots.x), unit(dots.y.map((y) => -y))];
  const view = { zoom: 1, x: 0, y: 0 };
  const hidden = new Set();
  const pictures = new Map();
  const ring = canvas.parentElement.appendChild(document.createElement("i"));
  let [width, height] = [0, 0];
  let [unsureOnly, lit, chosen, waiting] = [false, null, null, false];

  const margin = 28;
  const buttons = () => (width > 600 ? 36 : 0); // the zoom buttons lie on the left of a wide map
  const left = (i) => (margin + buttons() + across[i] * (width - 2 * margin - buttons())) * view.zoom + view.x;
  const top = (i) => (margin + down[i] * (height - 2 * margin)) * view.zoom + view.y;
  const inside = (x, y) => x > -15 && y > -15 && x < width + 15 && y < height + 15;
  const visible = (i) => !hidden.has(keys[i]) && (!unsureOnly || dots.unsure[i] === 1 || dots.cls[i] === null);
  const radius = () => Math.min(7, (size > 4000 || width < 500 ? 2.6 : 3.6) * view.zoom ** 0.3);

  function picture(i) {
    if (!pictures.has(i)) {
      const image = new Image();
      image.onload = redraw;
      image.src = dots.thumbnail[i];
      pictures.set(i, image);
    }
    return pictures.get(i);
  }

  function draw() {
    waiting = false;
    if (!width) return;
    const shown = order.filter((i) => visible(i) && inside(left(i), top(i)));
    if (lit !== null) shown.sort((a, b) => (keys[a] === lit) - (keys[b] === lit));
    const near = view.zoom > 2 && shown.length <= 150; // few enough to show the images themselves
    const hollow = (i) => dots.unsure[i] === 1 && dots.cls[i] !== null;
    const strength = (i) => {
      if (lit !== null) return keys[i] === lit ? 1 : 0.15;
      return marks.get(keys[i]).kind === "known" ? 0.75 : 1;
    };
    painter.begin(radius());
    if (!near) for (const i of shown) painter.put(keys[i], hollow(i), keys[i] === lit, strength(i), left(i), top(i));
    painter.end();
    if (near) for (const i of shown) drawPicture(i, hollow(i), strength(i) < 0.5 ? 0.15 : 1);
    context.globalAlpha = 1;
    write(shown);
    point();
  }

  /** An image with its mark at the corner, or the mark alone. */
  function drawPicture(i, hollow, alpha) {
    const half = dots.thumbnail[i] && picture(i).complete && picture(i).naturalWidth ? 20 : 0;
    const [x, y] = [Math.round(left(i)), Math.round(top(i))];
    context.globalAlpha = alpha;
    if (half) {
      context.drawImage(picture(i), x - half, y - half, 2 * half, 2 * half);
      Object.assign(context, { strokeStyle: colour(marks.get(keys[i]).colour), lineWidth: 2 });
      context.strokeRect(x - half, y - half, 2 * half, 2 * half);
    }
    painter.draw(context, keys[i], hollow, keys[i] === lit, x + half, y - half);
  }

  /** Put the ring around the chosen image. */
  function point() {
    ring.hidden = chosen === null || !visible(chosen);
    if (!ring.hidden) ring.style.transform = `translate(${left(chosen)}px, ${top(chosen)}px)`;
  }

  /** Write each new class's name at the middle of its marks, unless another name is there. */
  function write(shown) {
    const groups = new Map();
    for (const i of shown) {
      if (lit === null ? marks.get(keys[i]).kind !== "new" : keys[i] !== lit) continue;
      if (!groups.has(keys[i])) groups.set(keys[i], []);
      groups.get(keys[i]).push(i);
    }
    const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    const taken = [];
    Object.assign(context, { font: "600 12px system-ui, sans-serif", textAlign: "center", textBaseline: "middle" });
    Object.assign(context, { strokeStyle: colour("var(--card)"), fillStyle: colour("var(--ink)"), lineWidth: 4 });
    context.lineJoin = "round";
    for (const [key, members] of groups) {
      const { name } = marks.get(key);
      const text = name.length > 24 ? `${name.slice(0, 23)}…` : name;
      const half = context.measureText(text).width / 2 + 4;
      const x = Math.min(Math.max(middle(members.map(left)), half), width - half);
      const y = Math.min(Math.max(middle(members.map(top)), 12), height - 12);
      if (taken.some((box) => Math.abs(box.x - x) < box.half + half && Math.abs(box.y - y) < 18)) continue;
      taken.push({ x, y, half });
      context.strokeText(text, x, y);
      context.fillText(text, x, y);
    }
  }

  function redraw() {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  }

  function repaint() {
    painter.forget();
    redraw();
  }

  function move(zoom, x, y) {
    view.zoom = Math.min(60, Math.max(1, zoom));
    view.x = Math.min(0, Math.max(width * (1 - view.zoom), x));
    view.y = Math.min(0, Math.max(height * (1 - view.zoom), y));
    canvas.classList.toggle("zoomed", view.zoom > 1);
    canvas.dataset.zoom = view.zoom.toFixed(2);
    redraw();
  }

  function zoomBy(factor, x = width / 2, y = height / 2) {
    const zoom = Math.min(60, Math.max(1, view.zoom * factor));
    move(zoom, x - ((x - view.x) * zoom) / view.zoom, y - ((y - view.y) * zoom) / view.zoom);
  }

  function nearest(x, y) {
    let [best, least] = [null, 20 ** 2];
    for (const i of order) {
      const distance = (left(i) - x) ** 2 + (top(i) - y) ** 2;
      if (distance <= least && visible(i)) [best, least] = [i, distance];
    }
    return best;
  }

  function choose(i) {
    if (i === chosen && (i === null || !tip.box.hidden)) return;
    chosen = i;
    canvas.classList.toggle("pointing", i !== null);
    const box = canvas.getBoundingClientRect();
    if (i === null) tip.hide();
    else tip.show(i, new DOMRect(box.left + left(i) - 12, box.top + top(i) - 12, 24, 24), true);
    point();
  }

  /** The next or previous visible image, brought to the middle if it is outside. */
  function step(by) {
    const all = order.filter(visible);
    if (!all.length) return;
    const i = all.at((all.indexOf(chosen) + by + all.length) % all.length);
    const [x, y] = [left(i), top(i)];
    if (x < 0 || y < 0 || x > width || y > height) move(view.zoom, view.x + width / 2 - x, view.y + height / 2 - y);
    choose(i);
  }

  const listen = { canvas, view, move, zoomBy, nearest, choose, step };
  followPointer(listen);
  followKeys(listen);
  for (const button of section.querySelectorAll("[data-zoom]")) {
    const act = { in: () => zoomBy(1.6), out: () => zoomBy(1 / 1.6), reset: () => move(1, 0, 0) };
    if (button !== canvas) button.onclick = act[button.dataset.zoom];
  }
  new ResizeObserver(() => {
    [width, height] = [canvas.clientWidth, canvas.clientHeight];
    painter.resize();
    move(view.zoom, view.x, view.y);
  }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

  return {
    repaint,
    hidden,
    redraw,
    setUnsureOnly: (only) => ((unsureOnly = only), choose(null), redraw()),
    light: (key) => ((lit = key), redraw()),
  };
}

/** Mouse, pen and fingers: hover or tap for an image, drag to move, wheel or pinch to zoom. */
function followPointer({ canvas, view, move, zoomBy, nearest, choose }) {
  const down = new Map();
  let travelled = 0;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const span = () => {
    const [a, b] = [...down.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, length: Math.hypot(a.x - b.x, a.y - b.y) || 1 };
  };
  canvas.onpointerdown = (event) => {
    canvas.setPointerCapture(event.pointerId);
    if (!down.size) travelled = 0;
    down.set(event.pointerId, place(event));
  };
  canvas.onpointermove = (event) => {
    const now = place(event);
    const before = down.get(event.pointerId);
    if (!before) return choose(nearest(now.x, now.y));
    const pinch = down.size === 2 && span();
    down.set(event.pointerId, now);
    travelled += Math.hypot(now.x - before.x, now.y - before.y);
    if (travelled < 5) return;
    choose(null);
    canvas.classList.add("dragging");
    if (pinch) {
      const { x, y, length } = span();
      zoomBy(length / pinch.length, x, y);
      move(view.zoom, view.x + x - pinch.x, view.y + y - pinch.y);
    } else if (down.size === 1) move(view.zoom, view.x + now.x - before.x, view.y + now.y - before.y);
  };
  canvas.onpointerup = (event) => {
    const { x, y } = place(event);
    if (travelled < 5) choose(nearest(x, y));
    down.delete(event.pointerId);
    canvas.classList.remove("dragging");
  };
  canvas.onpointercancel = (event) => down.delete(event.pointerId);
  canvas.onpointerleave = (event) => event.pointerType === "mouse" && choose(null);
  const wheel = (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return; // the page scrolls
    event.preventDefault();
    const { x, y } = place(event);
    choose(null);
    zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : event.ctrlKey ? 0.01 : 0.002)), x, y);
  };
  canvas.addEventListener("wheel", wheel, { passive: false });
}

function followKeys({ canvas, view, move, zoomBy, choose, step }) {
  const by = (x, y) => () => move(view.zoom, view.x + x, view.y + y);
  const keys = {
    ...{ ArrowLeft: by(60, 0), ArrowRight: by(-60, 0), ArrowUp: by(0, 60), ArrowDown: by(0, -60) },
    ...{ "+": () => zoomBy(1.4), "=": () => zoomBy(1.4), "-": () => zoomBy(1 / 1.4), 0: () => move(1, 0, 0) },
    ...{ n: () => step(1), p: () => step(-1), Escape: () => choose(null) },
  };
  canvas.onkeydown = (event) => {
    const act = keys[event.key] ?? keys[event.key.toLowerCase()];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  };
  canvas.onblur = () => choose(null);
}
