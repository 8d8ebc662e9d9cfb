/* A virtual list of pictures: of any number of images only the rows near the window are in the document. */

const GAP = 12;
const CAPTION = 24; // pixels below a picture
const SPARE = 3; // rows above and below the window

/** Show `images` in a container; `make` gives the small picture of one. */
export function makeGrid(container, make) {
  let [images, captions] = [[], null];
  let [columns, side, row] = [1, 1, 1];
  let waiting = false;
  let current = 0; // the place that the tabulator stops at
  const shown = new Map(); // place → element

  function measure() {
    const width = container.clientWidth;
    const wanted = width < 600 ? 78 : 104;
    columns = Math.max(1, Math.floor((width + GAP) / (wanted + GAP)));
    side = (width - GAP * (columns - 1)) / columns;
    row = side + CAPTION + GAP;
    container.style.height = `${Math.max(0, Math.ceil(images.length / columns) * row - GAP)}px`;
    for (const element of shown.values()) element.remove();
    shown.clear();
    draw();
  }

  function draw() {
    waiting = false;
    if (!container.offsetParent) return;
    const top = -container.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / row) - SPARE) * columns;
    const last = Math.min(images.length, (Math.ceil((top + innerHeight) / row) + SPARE) * columns);
    for (const [place, element] of shown) {
      if (place >= first && place < last) continue;
      element.remove();
      shown.delete(place);
    }
    for (let place = first; place < last; place++) if (!shown.has(place)) put(place);
  }

  function put(place) {
    const element = make(images[place], captions);
    element.dataset.place = place;
    element.tabIndex = place === current ? 0 : -1;
    element.setAttribute("aria-posinset", place + 1);
    element.setAttribute("aria-setsize", images.length);
    const [x, y] = [(place % columns) * (side + GAP), Math.floor(place / columns) * row];
    Object.assign(element.style, { width: `${side}px`, transform: `translate(${x}px, ${y}px)` });
    shown.set(place, element);
    container.append(element);
  }

  /** Go to a place: it is scrolled to and has the focus. */
  function focus(place) {
    const before = shown.get(current);
    if (before) before.tabIndex = -1;
    current = Math.min(Math.max(place, 0), images.length - 1);
    const y = Math.floor(current / columns) * row + container.getBoundingClientRect().top;
    if (y < 80 || y + row > innerHeight - 80) scrollBy({ top: y - innerHeight / 2 + row / 2, behavior: "instant" });
    draw();
    const element = shown.get(current);
    if (element) element.tabIndex = 0;
    element?.focus({ preventScroll: true });
  }

  function later() {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  }

  container.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    const ends = { Home: -images.length, End: images.length };
    const by = steps[event.key] ?? ends[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    focus(Number(document.activeElement.dataset.place ?? current) + by);
  });
  container.addEventListener("focusin", (event) => (current = Number(event.target.dataset.place ?? current)));
  addEventListener("scroll", later, { passive: true });
  new ResizeObserver(measure).observe(container.parentElement);

  return {
    set(list, words) {
      const focused = container.contains(document.activeElement);
      [images, captions] = [list, words];
      container.images = list;
      current = Math.min(current, Math.max(0, list.length - 1));
      measure();
      if (focused && list.length) focus(current);
    },
  };
}
