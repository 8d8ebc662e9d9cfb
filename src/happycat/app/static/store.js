/* The model as this tab knows it: the state of its version, and the album of its images. */

import { Album } from "./album.js";
import { get, post } from "./api.js";

const EMPTY = { path: [], x: [], y: [], files: false, id: null };
const KINDS = { new: "new", labelled: "known", found: "known", dropped: "known" };

const COLUMNS = ["cls", "probability", "unsure", "said"];

/** The state after a difference: what it does not speak of is as it was. */
function changed(before, { since, images, changed: classes, order, kept, ...rest }) {
  const state = { ...before, ...rest };
  for (const name of COLUMNS) {
    state[name] = before[name].slice();
    images.places.forEach((place, n) => (state[name][place] = images[name][n]));
  }
  const known = new Map([...before.classes, ...classes].map((one) => [one.id, one]));
  state.classes = order.map((id) => known.get(id));
  state.history = [...before.history.slice(0, kept), ...rest.history];
  return state;
}

export class Store extends EventTarget {
  constructor() {
    super();
    this.state = null;
    this.images = EMPTY;
    this.album = new Album({ ...EMPTY, classes: [], cls: [], probability: [], unsure: [], thumbnail: [] });
    this.queue = Promise.resolve();
  }

  /** The class with that id; undefined if it is no more. */
  find(id) {
    return this.state.classes.find((one) => one.id === id);
  }

  /** The classes that an image can be given. */
  get living() {
    return this.state.classes.filter((one) => one.kind !== "dropped");
  }

  get checked() {
    return this.state.said.filter(Boolean).length;
  }

  /** The images of a class of which nobody has said where they belong; least sure first. */
  open(id) {
    const { said, probability } = this.state;
    const members = this.album.members.get(id) ?? [];
    return members.filter((i) => !said[i]).sort((a, b) => probability[a] - probability[b]);
  }

  /** Images that are unsure or of no class, and that nobody spoke of; least sure first. */
  unsure() {
    const { cls, unsure, said, probability } = this.state;
    const all = cls.map((_, i) => i).filter((i) => !said[i] && (unsure[i] || cls[i] === null));
    return all.sort((a, b) => probability[a] - probability[b]);
  }

  load() {
    return this.#next(async () => this.#take(await get("api/state")));
  }

  /** Do something; it is on disk, and this tab shows it, when the promise is fulfilled. */
  act(verb, values = {}) {
    return this.#next(async () => this.#take(await post(`api/do/${verb}`, { ...values, tag: this.state.tag })));
  }

  /** One request after the other: each says which version it is about. */
  #next(work) {
    const done = this.queue.then(work);
    this.queue = done.catch(() => {});
    return done;
  }

  async #take(answer) {
    const state = answer.since ? changed(this.state, answer) : answer;
    const review = state.review?.id ?? null;
    if (review !== this.images.id) {
      this.images = review === null ? EMPTY : await get(`api/images/${review}`);
      const { files, path } = this.images;
      this.thumbnails = path.map((_, i) => (files ? `thumb/${review}/${i}` : null));
    }
    const { path, x, y } = this.images;
    const { cls, probability, unsure } = state;
    const classes = state.classes.map(({ id, label, kind }) => ({ id, name: label, kind: KINDS[kind] }));
    this.state = state;
    this.album.update({ classes, path, x, y, cls, probability, unsure, thumbnail: this.thumbnails ?? [] });
    this.dispatchEvent(new Event("change"));
  }
}
