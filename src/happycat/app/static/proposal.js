/* A proposal: the classes that a discovery found and the model has not learned, to be accepted or refused. */

import { Album } from "./album.js";
import { get, post } from "./api.js";
import { button, counted, meter, nearest } from "./card_parts.js";
import { confirmed, toast } from "./dialogs.js";
import { find, make, thousands } from "./dom.js";
import { makeGalleries } from "./gallery.js";
import { makeNear } from "./near.js";

const newClasses = (number) => `${thousands(number)} new ${number === 1 ? "class" : "classes"}`;

export function makeProposal(app) {
  const { store } = app;
  let [shown, album, galleries] = [null, null, null];
  const taken = new Set(); // the classes that are to be accepted
  const near = makeNear();

  /** Show the proposal in a folder. */
  async function open(folder) {
    try {
      shown = await post("api/proposal/look", { folder });
    } catch (error) {
      return app.problem(error);
    }
    const { images, classes, cls, probability, unsure } = shown;
    const kinds = classes.map(({ id, label, kind }) => ({ id, name: label, kind: kind === "new" ? "new" : "known" }));
    const thumbnail = images.path.map((_, i) => (images.files ? `thumb/${images.id}/${i}` : null));
    album = new Album({ ...images, classes: kinds, cls, probability, unsure, thumbnail });
    galleries = makeGalleries(album);
    taken.clear();
    for (const { id } of fresh()) taken.add(id);
    location.hash = "#proposal";
    draw();
    return null;
  }

  const fresh = () => shown.classes.filter((one) => one.kind === "new");

  function gallery(images, label) {
    const box = make("div", { class: "gallery", "aria-label": label, role: "group" });
    galleries.fill(box, images);
    return box;
  }

  function card(one) {
    const title = make("h3", {}, album.glyph(one.id), make("bdi", {}, one.label));
    const words = make("p", { class: "quiet" }, make("b", {}, "Proposed"), ` · ${counted(one.images, "image")}`);
    const head = make("div", { class: "head" }, title, words);
    return near.add(make("article", { class: "card proposed" }, head), () => content(one));
  }

  function content(one) {
    const { confidence } = store.state.words;
    const sure = make("dl", {}, meter("Confidence", one.confidence, confidence));
    const facts = [sure, ...nearest(one, album, galleries.picture)];
    const pictures = [make("h4", {}, "Most typical"), gallery(one.typical, `Most typical images of ${one.label}`)];
    if (one.doubtful.length) {
      pictures.push(make("h4", {}, "Most doubtful"), gallery(one.doubtful, `Most doubtful images of ${one.label}`));
    }
    const box = make("input", { type: "checkbox", id: `take-${one.id}` });
    box.checked = taken.has(one.id);
    box.onchange = () => (box.checked ? taken.add(one.id) : taken.delete(one.id), count());
    const slot = make("div", { class: "slot" }, make("label", { class: "check" }, box, "Accept this class"));
    return [make("div", { class: "facts" }, ...facts), make("div", { class: "pictures" }, ...pictures), slot];
  }

  function draw() {
    find("#proposal-tab").hidden = shown === null;
    find("#proposal-cards").replaceChildren(...(shown ? fresh().map(card) : []));
    find("#proposal-body").hidden = shown === null;
    if (shown) {
      find("#proposal-sentence").textContent = shown.sentence;
      find("#proposal-what").textContent = `${shown.what}, in ${shown.folder}`;
      find("#proposal-stale").hidden = shown.fits;
      count();
    }
  }

  function count() {
    const [all, accept] = [fresh().length, find("#proposal-accept")];
    const whole = taken.size === all;
    const some = `${thousands(taken.size)} of ${thousands(all)}`;
    accept.textContent = whole ? `Accept all ${thousands(all)}` : `Accept ${some}`;
    if (!all) accept.textContent = "Accept: no new class";
    accept.disabled = !shown.fits || (taken.size === 0 && all > 0);
  }

  async function accept() {
    const only = taken.size === fresh().length ? null : [...taken];
    try {
      await post("api/proposal/accept", { folder: shown.folder, only });
      await close("#classes");
      await store.load();
      toast(`Accepted: ${newClasses(only?.length ?? taken.size)}`);
    } catch (error) {
      app.problem(error);
    }
  }

  async function refuse() {
    const details = "The model stays as it is. The page and the lists stay in the folder, which is yours.";
    if (!(await confirmed("Refuse this proposal?", "Refuse", [make("p", {}, details)]))) return;
    try {
      await post("api/proposal/refuse", { folder: shown.folder });
      await close("#discover");
      toast("Refused; the model is as it was.");
    } catch (error) {
      app.problem(error);
    }
  }

  async function close(view) {
    shown = null;
    draw();
    location.hash = view;
    await list();
  }

  /** The proposals that can be accepted, in the view of discoveries. */
  async function list() {
    const all = await get("api/proposals").catch(() => []);
    find("#proposals").hidden = !all.length;
    const item = ({ folder, what, new: number, total }) => {
      const words = `${newClasses(number)} in ${counted(total, "image")}`;
      const line = make("span", {}, make("b", {}, words), make("span", { class: "quiet" }, ` ${what}`));
      return make("li", {}, line, button("Look at it", () => open(folder)));
    };
    find("#proposal-list").replaceChildren(...all.map(item));
  }

  find("#proposal-accept").onclick = accept;
  find("#proposal-refuse").onclick = refuse;
  find("#proposal-form").onsubmit = (event) => {
    event.preventDefault();
    open(find("#proposal-folder").value);
  };
  draw();
  return { refresh: () => shown || (location.hash = "#discover"), open, list };
}
