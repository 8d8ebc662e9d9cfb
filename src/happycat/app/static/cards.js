/* The first screen: a card for each class, new ones first; names, suggestions, galleries. */

import { get } from "./api.js";
import { button, counted, meter, nearest } from "./card_parts.js";
import { confirmed } from "./dialogs.js";
import { find, findAll, make, percent, thousands } from "./dom.js";
import { followDraft, keepDraft } from "./drafts.js";
import { keepFocus } from "./focus.js";
import { makeNear } from "./near.js";

const IDLE = 600; // milliseconds after a change until more is computed

export function makeCards(app) {
  const { store } = app;
  const cards = new Map(); // class → {element, shown}
  const separations = new Map(); // class → what it was last, until it is known again
  let order = [];
  let asking = null; // the version whose separations are asked for
  let twins = {}; // new class → the new one that it is perhaps the same as
  const near = makeNear(still);

  const gallery = (images, label, captions) => {
    const box = make("div", { class: "gallery", "data-pick": "", role: "listbox", "aria-multiselectable": true });
    box.setAttribute("aria-label", label);
    box.images = images;
    app.fill(box, images, captions);
    return box;
  };
  const chance = (i) => (store.state.said[i] ? "confirmed" : percent(store.state.probability[i]));

  function head(one) {
    const title = make("h3", {}, app.glyph(one.id), make("bdi", {}, one.label));
    const done = store.album.members.get(one.id).filter((i) => store.state.said[i]).length;
    const checked = done ? ` · ${thousands(done)} checked` : "";
    const number = one.name === null ? "" : `#${one.id} · `; // without a name it is called by its number
    const words = make("p", { class: "quiet" }, `${number}${counted(one.images, "image")}${checked}`);
    return make("div", { class: "head", "data-handle": one.id }, title, words);
  }

  /** The class that one is perhaps the same as: another new one, or else a known one. */
  function likeness(one) {
    const twin = store.find(twins[one.id]);
    return twin ? [twin.id, twin.label] : one.alike;
  }

  function suggestion(one) {
    const alike = likeness(one);
    if (!alike) return [];
    const [id, label] = alike;
    const merge = () => app.act("merge", { which: id, other: one.id }, `Merged into ${label}`);
    const apart = () => app.act("apart", { which: one.id, other: id }, "They stay two classes");
    const words = make("span", {}, "Perhaps the same as ", make("b", {}, make("bdi", {}, label)), "?");
    const row = [words, button("Merge", merge, "", `Merge ${one.label} with ${label}`)];
    row.push(button("No, different", apart, "", `No, different: ${one.label} is not ${label}`));
    return [make("p", { class: "suggestion" }, ...row)];
  }

  /** The field for a name; Enter stores it and goes to the next class without one. */
  function naming(one) {
    const id = `name-${one.id}`;
    const input = make("input", { type: "text", id, class: "name", list: "names", placeholder: "What is it?" });
    Object.assign(input, { autocomplete: "off", spellcheck: false, ariaLabel: `Name of ${one.label}` });
    followDraft(input, store.state.model, one);
    const form = make("form", { class: "naming" }, make("label", { for: id }, "Name"), input);
    form.onsubmit = async (event) => {
      event.preventDefault();
      const name = input.value.trim();
      if (!name) return;
      const done = name === one.name || (await give(one, name));
      if (!done) return;
      keepDraft(store.state.model, one.id, null);
      next(one.id);
    };
    return form;
  }

  /** Name a class; if another one has that name, ask whether they are the same. */
  async function give(one, name) {
    const other = store.living.find(({ id, label }) => id !== one.id && label.toLowerCase() === name.toLowerCase());
    if (!other) return app.act("name", { which: one.id, name }, `#${one.id} is ${name} now`);
    const yes = await confirmed(`There is a class ${other.label} already. Merge the two?`, "Merge");
    return yes && app.act("merge", { which: other.id, other: one.id }, `Merged into ${other.label}`);
  }

  function next(id) {
    const shown = findAll("#new-cards .card").filter((card) => !card.hidden);
    const at = shown.findIndex((card) => card.dataset.drop === String(id));
    const open = (card) => store.find(Number(card.dataset.drop))?.name === null;
    const target = shown.slice(at + 1).find(open) ?? shown.find(open);
    if (target) near.fill(target);
    const input = target && find(".name", target);
    input?.focus();
    input?.scrollIntoView({ block: "center" });
  }

  async function drop(one) {
    const details = [make("p", {}, "Nothing is given to it any more, and nothing like it is discovered again.")];
    if (await confirmed(`Drop ${one.label}?`, "Drop", details)) app.act("drop", { which: one.id }, "Dropped");
  }

  function slot(one) {
    const all = make("a", { class: "button", href: `#class-${one.id}` }, `Show all ${thousands(one.images)}`);
    const split = () => app.act("split", { which: one.id }, `${one.label} is split`);
    const tools = [button("Review", () => app.review(one.id)), button("Split", split), button("Drop", () => drop(one))];
    return make("div", { class: "slot" }, naming(one), make("div", { class: "row" }, all, ...tools));
  }

  const shell = (one, kind) => make("article", { class: kind, "data-drop": one.id }, head(one));

  /** What follows the head of a new class's card. */
  function card(one) {
    const { separation, confidence } = store.state.words;
    const known = one.separation ?? separations.get(one.id) ?? null;
    const meters = [meter("Separation", known, separation), meter("Confidence", one.confidence, confidence)];
    const facts = make("div", { class: "facts" }, make("dl", {}, ...meters), ...nearest(one, store.album, app.picture));
    const pictures = make("div", { class: "pictures", "data-area": "" });
    if (one.typical.length) {
      pictures.append(make("h4", {}, "Most typical"), gallery(one.typical, `Most typical images of ${one.label}`));
    }
    if (one.doubtful.length) {
      const label = `Most doubtful images of ${one.label}`;
      pictures.append(make("h4", {}, "Most doubtful"), gallery(one.doubtful, label, chance));
    }
    pictures.append(...suggestion(one));
    return [facts, pictures, slot(one)];
  }

  function smallCard(one) {
    const link = make("a", { href: `#class-${one.id}` }, `Show all ${thousands(one.images)}`);
    const pictures = make("div", { "data-area": "" }, gallery(one.typical.slice(0, 6), `Images of ${one.label}`));
    return [pictures, link];
  }

  /** The elements of the classes; what has not changed stays as it is, with what was typed. */
  function elements(classes, kind, content) {
    return classes.map((one) => {
      const said = store.album.members.get(one.id).map((i) => store.state.said[i]);
      const samples = one.nearest.map(([id]) => store.album.best(id));
      const shown = JSON.stringify([{ ...one, separation: 0 }, likeness(one), said, samples, store.images.id]);
      const before = cards.get(one.id);
      if (before?.shown === shown) return before.element;
      const element = near.add(shell(one, kind), () => content(one), before?.element);
      cards.set(one.id, { element, shown });
      return element;
    });
  }

  /** Put elements into a box in their order; those that are right stay, and the focus with them. */
  function place(box, list) {
    const used = document.activeElement.closest("[data-drop]")?.dataset.drop;
    const kept = new Set(list);
    keepFocus(box, () => {
      for (const old of [...box.children]) if (!kept.has(old)) old.remove();
      list.forEach((element, n) => box.children[n] !== element && box.insertBefore(element, box.children[n] ?? null));
      near.look(box);
      list.filter((one) => one.dataset.drop === used).forEach(near.fill);
    });
  }

  /** Draw the cards anew; the one that is in the middle of the window stays where it is. */
  function still(draw) {
    const middle = window.innerHeight / 2;
    const box = (card) => card.getBoundingClientRect();
    const seen = findAll(".card, .small-card").find((card) => box(card).height && box(card).bottom > middle);
    const before = seen && box(seen).top;
    const id = Number(seen?.dataset.drop);
    draw();
    const now = cards.get(id)?.element;
    if (seen && now?.isConnected) scrollBy({ top: box(now).top - before, behavior: "instant" });
  }

  function sort() {
    const by = find("#card-sort").value;
    const value = { label: (one) => one.label, id: (one) => one.id, images: (one) => -one.images }[by];
    const key = value ?? ((one) => one[by] ?? 2);
    const compare = (a, b) => (by === "label" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
    const fresh = store.state.classes.filter((one) => one.kind === "new");
    order = fresh.sort((a, b) => compare(key(a), key(b))).map(({ id }) => id);
    refresh((draw) => draw());
  }

  function filter() {
    const wanted = find("#card-filter").value.trim().toLowerCase();
    for (const element of findAll("#new-cards .card, #known-cards .small-card")) {
      const id = Number(element.dataset.drop);
      const text = () => [store.find(id).label, ...store.album.members.get(id).map((i) => store.album.path[i])];
      element.hidden = Boolean(wanted) && !text().join("\n").toLowerCase().includes(wanted);
    }
    find("#card-none").hidden = findAll("#new-cards .card").some((card) => !card.hidden);
  }

  function figures() {
    const { cls, unsure, said, review, classes } = store.state;
    const kinds = new Map(classes.map(({ id, kind }) => [id, kind === "new" ? "new" : "known"]));
    const count = { new: 0, known: 0, none: 0 };
    for (const id of cls) count[kinds.get(id) ?? "none"] += 1;
    const rows = [["", "images", cls.length], ["new", "in new classes", count.new]];
    rows.push(["known", "in known classes", count.known], ["none", "in no class", count.none]);
    rows.push(["", "unsure", cls.filter((id, i) => !said[i] && (unsure[i] || id === null)).length]);
    rows.push(["", "skipped files", review?.skipped.length ?? 0]);
    const cell = ([kind, words, number]) =>
      make("div", { class: kind }, make("dt", {}, words), make("dd", {}, thousands(number)));
    find(".figures").replaceChildren(...rows.map(cell));
    const share = ([kind, number]) => {
      const part = make("i", { class: kind });
      part.style.flexGrow = number;
      return part;
    };
    find(".shares").replaceChildren(...Object.entries(count).filter(([, number]) => number).map(share));
  }

  /** Ask which classes are perhaps the same, and for the separations that are not known yet, one after another. */
  async function separate() {
    const { tag } = store.state;
    if (asking === tag) return;
    asking = tag;
    await new Promise((resolve) => setTimeout(resolve, IDLE)); // an action that follows is not to wait for this
    if (store.state.tag !== tag) return;
    const found = await get("api/twins").catch(() => ({}));
    if (store.state.tag !== tag) return;
    const other = JSON.stringify(found) !== JSON.stringify(twins);
    twins = found;
    if (other) refresh();
    for (const id of [...order]) {
      const one = store.find(id);
      if (asking !== tag || store.state.tag !== tag) return;
      if (one.separation !== null || one.images < 2) continue;
      one.separation = await get(`api/separation/${id}`).catch(() => null);
      if (one.separation === null) continue;
      separations.set(id, one.separation);
      const old = cards.get(id) && find(".meter", cards.get(id).element);
      old?.replaceWith(meter("Separation", one.separation, store.state.words.separation));
    }
  }

  /** Show the classes as they are now; unless they were put into another order, the card in view stays there. */
  function refresh(keep = still) {
    const { classes, sentence, model, review } = store.state;
    find("#model").textContent = model;
    find("#sentence").textContent = sentence;
    find("#nothing").hidden = review !== null;
    find("#found").hidden = find("#overview").hidden = review === null;
    if (!review) return;
    figures();
    const fresh = new Map(classes.filter((one) => one.kind === "new").map((one) => [one.id, one]));
    order = [...[...fresh.keys()].filter((id) => !order.includes(id)), ...order.filter((id) => fresh.has(id))];
    const known = classes.filter((one) => one.kind !== "new" && one.kind !== "dropped");
    keep(() => {
      place(find("#new-cards"), elements(order.map((id) => fresh.get(id)), "card", card));
      place(find("#known-cards"), elements(known.filter((one) => one.images), "small-card", smallCard));
    });
    find("#new-count").textContent = fresh.size;
    find("#known-count").textContent = known.length;
    const idle = known.filter((one) => !one.images);
    find("#idle").hidden = !idle.length;
    const chip = (one) => make("li", { "data-drop": one.id }, make("bdi", {}, one.label));
    find("#idle-chips").replaceChildren(...idle.map(chip));
    const dropped = classes.filter((one) => one.kind === "dropped").map((one) => one.label);
    find("#dropped").hidden = !dropped.length;
    find("#dropped").textContent = `Dropped: ${dropped.join(", ")}.`;
    const named = store.living.filter((one) => one.name);
    find("#names").replaceChildren(...named.map((one) => make("option", { value: one.name })));
    app.selection.show();
    filter();
    separate();
  }

  find("#card-filter").oninput = filter;
  find("#card-sort").onchange = sort;
  return { refresh: () => refresh() };
}
