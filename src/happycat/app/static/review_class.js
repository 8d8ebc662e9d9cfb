/* Review of a class: approve its most doubtful members page by page; grow it by bisecting its candidates. */

import { get } from "./api.js";
import { find, make, thousands } from "./dom.js";
import { followDraft, keepDraft } from "./drafts.js";

const PAGE = 24; // pictures at a time

/** A cursor over a page of pictures, and those that were unmarked. */
function makeMarks(images) {
  let at = 0;
  const off = new Set();
  const columns = () => {
    const gallery = find(".review-grid");
    return gallery ? getComputedStyle(gallery).gridTemplateColumns.split(" ").length : 1;
  };
  const toggle = (n) => {
    at = n;
    const i = images()[n];
    if (i !== undefined && !off.delete(i)) off.add(i);
  };
  const move = (by) => (at = Math.min(Math.max(at + by, 0), Math.max(images().length - 1, 0)));
  const key = (name) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns() };
    if (name in steps) move(steps[name]);
    else if (name === "x" || name === " ") toggle(at);
    else return false;
    return true;
  };
  return { off, toggle, key, at: () => at, reset: () => ((at = 0), off.clear()), current: () => images()[at] };
}

/** The class's name: as text with its mark. */
const named = (review, one) => [review.app.glyph(one.id), make("bdi", {}, one.label)];

/** Approve a class: confirm what is marked on a page, reject what is not. */
export function approve(review, id) {
  const { store } = review;
  const page = () => store.open(id).slice(0, PAGE);
  const marks = makeMarks(page);

  async function say(images, others) {
    if (!images.length && !others.length) return;
    const less = others.length ? `, ${thousands(others.length)} rejected` : "";
    const words = `${thousands(images.length)} confirmed${less}`;
    if (await review.act("review", { images, others }, words)) marks.reset();
    if (!store.find(id) || !store.open(id).length) review.next(id);
  }

  const split = (list) => [list.filter((i) => !marks.off.has(i)), list.filter((i) => marks.off.has(i))];

  async function ignore() {
    const images = marks.off.size ? page().filter((i) => marks.off.has(i)) : [marks.current()].filter(Number.isInteger);
    if (images.length && (await review.act("ignore", { images }, `${thousands(images.length)} ignored`))) marks.reset();
    if (!store.find(id) || !store.open(id).length) review.next(id);
  }

  function naming(one) {
    const input = make("input", { type: "text", id: "review-name", class: "name", list: "names" });
    Object.assign(input, { autocomplete: "off", placeholder: "What is it?" });
    followDraft(input, store.state.model, one);
    input.setAttribute("aria-label", "Name of the class");
    input.onkeydown = async (event) => {
      if (event.key === "Escape") review.focus();
      if (event.key !== "Enter") return;
      event.preventDefault();
      event.stopPropagation();
      const name = input.value.trim();
      const give = () => review.act("name", { which: id, name }, `#${id} is ${name} now`);
      const stored = !name || name === one.name || (await give());
      if (stored) keepDraft(store.state.model, id, null);
      if (stored && find("#review-name")) find("#review-name").value = store.find(id)?.name ?? "";
      review.focus();
    };
    return input;
  }

  const keys = [["Enter", "Approve page", "main"], ["A", "Approve all"], ["X", "Unmark"], ["I", "Ignore"]];
  keys.push(["E", "Name"], ["G", "Grow"], ["P", "Previous"], ["N", "Next class"], ["Z", "Undo"]);

  const after = [["G", "Grow"], ["N", "Next class", "main"], ["Z", "Undo"]];

  return {
    render() {
      const one = store.find(id);
      const open = one ? store.open(id) : [];
      const title = one ? named(review, one) : "Gone";
      if (!open.length) return [review.head(title, "Every image of this class is checked."), review.buttons(after)];
      const count = `${thousands(open.length)} of ${thousands(one.images)} to check`;
      const note = `${count}, most doubtful first. Unmark what does not belong.`;
      const grid = review.grid(page(), marks.off, marks.at(), (n) => (marks.toggle(n), review.go(this)));
      return [review.head(title, note, naming(one)), grid, review.buttons(keys)];
    },
    async key(key) {
      if (marks.key(key)) return true;
      if (key === "Enter" || key === "a") await say(...split(page()));
      else if (key === "A") await say(...split(store.open(id)));
      else if (key === "i") await ignore();
      else if (key === "e") find("#review-name")?.focus();
      else if (key === "g") review.growing(id);
      else if (key === "n") review.next(id);
      else if (key === "p") review.previous(id);
      return !["e", "g", "n", "p"].includes(key);
    },
    back: () => marks.off.forEach((i) => store.open(id).includes(i) || marks.off.delete(i)),
  };
}

/**
 * Grow a class: its candidates, likeliest first, are looked at page by page. Yes: all up to here belong, look twice as
 * far on; no: none from here on belongs, look half way back. What is known to belong is moved at the end.
 */
export function grow(review, id) {
  const { store } = review;
  let ranked = null;
  let [low, high, at, stride, bounded] = [0, 0, 0, 1, false]; // pages: [0, low) belong, [high, …) do not
  const page = () => ranked.slice(at * PAGE, (at + 1) * PAGE);
  const marks = makeMarks(page);
  const left = new Set(); // candidates that were unmarked

  async function load() {
    try {
      ranked = await get(`api/ranked/${id}`);
    } catch (error) {
      review.app.problem(error);
      return review.showing(step) && review.begin(id);
    }
    high = Math.ceil(ranked.length / PAGE);
    if (!review.showing(step)) return null;
    return high ? review.go(step) : end();
  }

  function further() {
    if (low >= high) return end();
    stride *= 2;
    at = bounded ? (low + high) >> 1 : Math.min(low + stride - 2, high - 1);
    marks.reset();
    return null;
  }

  function answer(yes) {
    if (yes) {
      marks.off.forEach((i) => left.add(i));
      low = at + 1;
    } else [high, bounded] = [at, true];
    return further();
  }

  async function end() {
    const images = (ranked ?? []).slice(0, low * PAGE).filter((i) => !left.has(i));
    if (images.length) await review.act("move", { images, to: id }, `${thousands(images.length)} images were added`);
    return store.open(id).length ? review.begin(id) : review.next(id);
  }

  const keys = [["Y", "Yes, all", "main"], ["N", "No, none"], ["X", "Not this one"], ["Escape", "Stop"]];
  const step = {
    start: () => ranked === null && load(),
    render() {
      const one = store.find(id);
      const title = ["Are all of these ", ...named(review, one), "?"];
      if (ranked === null) return [review.head(title, "Looking for candidates.")];
      const pages = Math.ceil(ranked.length / PAGE);
      const yes = thousands(Math.min((at + 1) * PAGE, ranked.length) - left.size - marks.off.size);
      const note = `Page ${at + 1} of ${pages} of candidates, likeliest first. Yes adds the ${yes} images up to here.`;
      const toggle = (n) => (marks.toggle(n), review.go(step));
      const grid = review.grid(page(), marks.off, marks.at(), toggle, (i) => store.album.name(i));
      return [review.head(title, note), grid, review.buttons(keys)];
    },
    async key(key) {
      if (ranked === null) return key === "Escape" && void review.begin(id);
      if (marks.key(key)) return true;
      if (key === "y" || key === "Enter") await answer(true);
      else if (key === "n") await answer(false);
      else if (key === "Escape") await end();
      return true;
    },
  };
  return step;
}
