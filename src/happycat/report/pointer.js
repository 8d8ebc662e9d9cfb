/* Mouse, pen, fingers and keys on the map: hover or tap for an image, drag to move, wheel or pinch to zoom. */

export function followPointer({ canvas, view, move, zoomBy, nearest, choose, open, lasso }) {
  const down = new Map();
  let travelled = 0;
  let drawing = false; // a lasso
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const span = () => {
    const [a, b] = [...down.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, length: Math.hypot(a.x - b.x, a.y - b.y) || 1 };
  };
  const pick = (image) => {
    choose(image);
    if (open && image !== null) open(image);
  };
  canvas.onpointerdown = (event) => {
    canvas.setPointerCapture(event.pointerId);
    if (!down.size) [travelled, drawing] = [0, Boolean(lasso) && event.shiftKey];
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
    if (drawing) return lasso(now, false);
    canvas.classList.add("dragging");
    if (pinch) {
      const { x, y, length } = span();
      zoomBy(length / pinch.length, x, y);
      move(view.zoom, view.x + x - pinch.x, view.y + y - pinch.y);
    } else if (down.size === 1) move(view.zoom, view.x + now.x - before.x, view.y + now.y - before.y);
  };
  canvas.onpointerup = (event) => {
    const { x, y } = place(event);
    if (drawing) lasso({ x, y }, true);
    else if (travelled < 5) pick(nearest(x, y));
    drawing = false;
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

export function followKeys({ canvas, view, move, zoomBy, choose, chosen, step, open }) {
  const by = (x, y) => () => move(view.zoom, view.x + x, view.y + y);
  const keys = {
    ...{ ArrowLeft: by(60, 0), ArrowRight: by(-60, 0), ArrowUp: by(0, 60), ArrowDown: by(0, -60) },
    ...{ "+": () => zoomBy(1.4), "=": () => zoomBy(1.4), "-": () => zoomBy(1 / 1.4), 0: () => move(1, 0, 0) },
    ...{ n: () => step(1), p: () => step(-1), Escape: () => choose(null) },
    Enter: () => open && chosen() !== null && open(chosen()),
  };
  canvas.onkeydown = (event) => {
    const act = keys[event.key] ?? keys[event.key.toLowerCase()];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  };
  canvas.onblur = () => choose(null);
}
