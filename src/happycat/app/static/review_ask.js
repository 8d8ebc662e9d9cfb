/* Review of unsure images one by one, and questions whose answers would change most. */

import { get } from "./api.js";
import { chosenClass } from "./dialogs.js";
import { fileName, make, percent, thousands } from "./dom.js";

/** One image as large as there is room. */
function large(store, i) {
  const { id, files } = store.images;
  const alt = `${fileName(store.album.path[i])}: ${store.album.about(i)}`;
  if (!files) return make("p", { class: "note" }, store.album.path[i]);
  return make("img", { src: `image/${id}/${i}`, alt, class: "review-large" });
}

/** Unsure images, the least sure first: a number gives the class. */
export function unsure(review) {
  const { store } = review;
  const skipped = new Set();
  let [shown, candidates] = [null, []];
  const list = () => store.unsure().filter((i) => !skipped.has(i));

  async function load(i) {
    shown = i;
    candidates = [];
    try {
      candidates = await get(`api/candidates/${i}`);
    } catch (error) {
      review.app.problem(error);
    }
    if (shown === i && review.showing(step)) review.go(step);
  }

  function choice(one, n) {
    const face = [make("kbd", {}, n + 1), make("bdi", {}, one.label), make("span", {}, percent(one.probability))];
    const made = make("button", { type: "button" }, ...face);
    const best = store.album.best(one.id);
    if (best !== null && store.album.thumbnail[best]) made.append(review.app.picture(best));
    made.onclick = () => take(one).then(() => review.go(step));
    return make("li", {}, made);
  }

  const take = ({ id }) => review.act("move", { images: [shown], to: id }, "");

  async function other() {
    const to = await chosenClass(store, "It is of", candidates.map(({ id }) => id));
    if (to && to.id !== undefined) await take(to);
    else if (to) await review.act("new_class", { images: [shown], name: to.name }, `A new class: ${to.name}`);
  }

  const keys = [["M", "Another class"], ["I", "Ignore"], ["P", "Previous"], ["N", "Next", "main"], ["Z", "Undo"]];
  const step = {
    render() {
      const [i] = list();
      if (i === undefined) {
        review.go(questions(review));
        return [];
      }
      if (shown !== i) load(i);
      const choices = make("ol", { class: "candidates" }, ...candidates.map(choice));
      const path = make("p", { class: "path quiet" }, make("bdi", {}, store.album.path[i]));
      const side = make("div", { class: "side" }, choices, path);
      const note = `${thousands(list().length)} unsure images are left, least sure first.`;
      const body = make("div", { class: "review-one" }, make("div", { class: "large" }, large(store, i)), side);
      return [review.head("Which class is it?", note), body, review.buttons(keys)];
    },
    async key(key) {
      const one = candidates[Number(key) - 1];
      if (one) await take(one);
      else if (key === "m") await other();
      else if (key === "i") await review.act("ignore", { images: [shown] }, "Ignored");
      else if (key === "n" || key === "ArrowRight") skipped.add(shown);
      else if (key === "p" || key === "ArrowLeft") skipped.delete([...skipped].pop());
      return true;
    },
  };
  return step;
}

/** Questions of the model, answered with yes or no. */
export function questions(review) {
  const { store } = review;
  const skipped = new Set();
  let [list, tag] = [null, null];

  async function load() {
    tag = store.state.tag;
    try {
      list = (await get("api/questions")).filter(({ key }) => !skipped.has(key));
    } catch (error) {
      list = [];
      review.app.problem(error);
    }
    if (!review.showing(step)) return;
    if (list.length) review.go(step);
    else review.finish();
  }

  function group(id) {
    const one = store.find(id);
    const gallery = make("div", { class: "gallery", role: "listbox", "aria-label": `Images of ${one?.label ?? ""}` });
    review.app.fill(gallery, (one?.typical ?? []).slice(0, 8));
    const title = make("h2", {}, review.app.glyph(id), make("bdi", {}, one?.label ?? ""));
    return make("div", { class: "question-class" }, title, gallery);
  }

  const keys = [["Y", "Yes", "main"], ["N", "No"], ["S", "Skip"], ["Z", "Undo"]];
  const step = {
    start: () => (list === null || tag !== store.state.tag) && load(),
    back: () => tag !== store.state.tag && load(),
    render() {
      if (!list?.length) return [review.head("Questions", "Looking for questions.")];
      const [{ text, classes, images }] = list;
      const pictures = images.map((i) => make("div", { class: "large" }, large(store, i)));
      const groups = classes.filter((id) => store.find(id)).map(group);
      const body = make("div", { class: "question" }, ...pictures, ...groups);
      return [review.head(text, "The answers to the first questions change most."), body, review.buttons(keys)];
    },
    async key(key) {
      const [question] = list ?? [];
      if (!question) return false;
      if (key === "y" || key === "n") {
        if (await review.act("answer", { key: question.key, yes: key === "y" }, "")) await load();
        return false;
      }
      if (key !== "s") return false;
      skipped.add(question.key);
      list = list.slice(1);
      if (!list.length) await load();
      return true;
    },
  };
  return step;
}
