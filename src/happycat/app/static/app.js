/* The app: views, selected images and what can be done with them, undo and redo, what other tabs do. */

import { get } from "./api.js";
import { makeCards } from "./cards.js";
import { asked, chosenClass, confirmed, toast } from "./dialogs.js";
import { makeDiscover } from "./discover.js";
import { chooseTheme, find, findAll, make, thousands } from "./dom.js";
import { followDrags } from "./drag.js";
import { focusImage } from "./focus.js";
import { makeGalleries } from "./gallery.js";
import { makeHistory } from "./history.js";
import { makeImages } from "./images.js";
import { showKeys } from "./keys.js";
import { makeLegend } from "./legend.js";
import { makeMap } from "./map.js";
import { makePicture } from "./picture.js";
import { makeReview } from "./review.js";
import { Selection, followSelection, pickable } from "./selection.js";
import { Store } from "./store.js";
import { makeProposal } from "./proposal.js";
import { makeTeach } from "./teach.js";
import { followFiles } from "./uploads.js";

const store = new Store();
const selection = new Selection();
const galleries = makeGalleries(store.album);
const thumb = pickable(galleries, selection);
const app = {
  ...{ store, selection, thumb, picture: galleries.picture, tip: galleries.tip, act, moveTo, problem, pulse },
  fill: (gallery, images, captions) => galleries.fill(gallery, images, captions, thumb),
  glyph: (key) => store.album.glyph(key),
  review: (id) => ((location.hash = "#review"), views.review.begin(id)),
};

/** Do something and say so; whether it was done. A tab that is behind shows the model as it is now. */
async function act(verb, values, words) {
  try {
    await store.act(verb, values);
    if (words) toast(words);
    return true;
  } catch (error) {
    await problem(error);
    return false;
  }
}

async function problem(error) {
  toast(error.message, true);
  if (error.stale) await store.load();
}

/** Move images to a class, or make a new one of them. */
async function moveTo(images, to) {
  const done = to.id === undefined
    ? await act("new_class", { images, name: to.name }, `A new class: ${to.name ?? `${images.length} images`}`)
    : await act("move", { images, to: to.id }, `${thousands(images.length)} moved to ${store.find(to.id).label}`);
  if (done) selection.clear();
  return done;
}

// Selected images

async function say(verb, words) {
  const images = selection.list;
  if (await act(verb, { images }, `${thousands(images.length)} ${words}`)) selection.clear();
}
const ACTIONS = {
  m: ["Move", async () => {
    const [own, ...others] = classesOf(selection.list);
    const title = `Move ${thousands(selection.images.size)} to`;
    const to = await chosenClass(store, title, [], others.length ? null : own);
    if (to) moveTo(selection.list, to);
  }],
  c: ["Confirm", () => say("confirm", "confirmed")],
  r: ["Reject", () => say("reject", "rejected")],
  i: ["Ignore", () => say(allIgnored() ? "unignore" : "ignore", allIgnored() ? "not ignored any more" : "ignored")],
  n: ["New class", async () => {
    const name = await asked("A new class of these images", "Its name (may be empty)", "Make it");
    if (name !== null) moveTo(selection.list, { name: name || null });
  }],
  s: ["Split off", splitOff],
};
const classesOf = (images) => [...new Set(images.map((i) => store.state.cls[i]))];
const allIgnored = () => selection.list.every((i) => store.state.said[i] === 2);

/** Make the selected images of a class examples of a class of their own. */
async function splitOff() {
  const classes = classesOf(selection.list);
  if (classes.length !== 1 || classes[0] === null) return toast("Select images of one class to split them off.", true);
  const done = await act("split_by", { which: classes[0], images: selection.list }, "Split");
  return done && selection.clear();
}

let last = null; // the picture that was selected last
function showActions() {
  const [bar, count] = [find("#actions"), selection.images.size];
  const left = !count && bar.contains(document.activeElement);
  bar.hidden = !count;
  if (left) focusImage(last, store.state.cls[last]);
  if (!count) return;
  last = selection.anchor;
  find("#actions b").textContent = `${thousands(count)} selected`;
  find("#actions [data-key=i]").textContent = allIgnored() ? "Do not ignore" : "Ignore";
}

function makeActions() {
  const bar = find("#actions");
  bar.append(make("b", { role: "status" }));
  for (const [key, [words, run]] of Object.entries(ACTIONS)) {
    const button = make("button", { type: "button", "data-key": key, "aria-keyshortcuts": key }, words);
    button.title = `${words} (${key.toUpperCase()})`;
    button.onclick = run;
    bar.append(button);
  }
  const clear = make("button", { type: "button", class: "plain" }, "Clear");
  clear.onclick = () => selection.clear();
  bar.append(clear);
}

async function dropped({ images, cls }, where) {
  if (images) {
    if (where === "ignore") return say("ignore", "ignored");
    return moveTo(images, where === "new" ? { name: null } : { id: Number(where) });
  }
  const into = store.find(Number(where));
  const from = store.find(cls);
  const details = [make("p", {}, `They become one class of ${thousands(into.images + from.images)} images.`)];
  if (!(await confirmed(`Merge ${from.label} into ${into.label}?`, "Merge", details))) return null;
  return act("merge", { which: into.id, other: cls }, `Merged into ${into.label}`);
}

// Views

const views = {};
const open = makePicture(app);
app.open = open;
makeActions();
views.classes = makeCards(app);
views.review = makeReview(app);
views.images = makeImages(app);
views.proposal = app.proposal = makeProposal(app);
views.teach = makeTeach(app);
views.discover = makeDiscover(app);
views.history = makeHistory(app);
views.map = makeMapView();

function makeMapView() {
  const lasso = (images) => selection.set(images);
  const map = makeMap(find("#view-map"), store.album, galleries.tip, { open: (i) => open(i), lasso });
  const legend = makeLegend(map, store.album);
  selection.addEventListener("change", () => map.select(selection.images));
  return { map, refresh: () => (map.refresh(), legend.refresh()) };
}

const viewOf = (hash) => hash.replace(/^#\/?/, "") || "classes";

/** The view that the address names: its section, and what of it. */
function route() {
  const name = viewOf(location.hash);
  const cls = name.match(/^class-(\d+)$/);
  if (cls) return { section: "images", which: Number(cls[1]), tab: "classes" };
  if (name === "unsure" || name === "ignored") return { section: "images", which: name, tab: "unsure" };
  return { section: name in views ? name : "classes", tab: name };
}

/** The view that is shown: without images to look at, the one that says so. */
function shownView() {
  const wanted = route();
  const bare = !store.state.review && ["review", "map", "images"].includes(wanted.section);
  return bare ? { section: "classes", tab: "classes" } : wanted;
}

function show() {
  if (!store.state) return;
  const { section, which, tab } = shownView();
  for (const view of findAll(".view")) view.hidden = view.id !== `view-${section}`;
  for (const link of findAll("nav a")) {
    if (viewOf(link.hash) === tab) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
    } else link.removeAttribute("aria-current");
  }
  galleries.tip.hide();
  if (which !== undefined) views.images.show(which);
  else views[section].refresh();
  views[section].shown?.();
}

function refresh() {
  const { state } = store;
  const held = document.activeElement;
  const right = state.cls.length;
  selection.set(selection.list.filter((i) => i < right));
  document.title = `${state.model} · happycat`;
  find("#undo").disabled = !state.undo;
  find("#redo").disabled = !state.redo;
  find("#checked").textContent = right ? `checked ${thousands(store.checked)} of ${thousands(right)}` : "";
  find("#unsure-number").textContent = right ? thousands(store.unsure().length) : "";
  const { section } = shownView();
  if (section !== "images") views[section].refresh();
  else show();
  if (held !== document.body && document.activeElement === document.body) find("#content").focus();
}

// Undo, redo, keys

const undo = () => store.state?.undo && act("undo", {}, "Undone");
const redo = () => store.state?.redo && act("redo", {}, "Redone");
find("#undo").onclick = undo;
find("#redo").onclick = redo;
find("#keys").onclick = showKeys;

const FIELDS = "input:not([type=range], [type=checkbox]), textarea, select, canvas[role=application]";
const typing = (target) => target.closest?.(FIELDS);

addEventListener("keydown", (event) => {
  const key = event.key.toLowerCase();
  if (event.ctrlKey || event.metaKey) {
    if (typing(event.target) || (key !== "z" && key !== "y")) return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) redo();
    else undo();
    return;
  }
  if (event.altKey || typing(event.target) || find("dialog[open]")) return;
  if (event.key === "?") return void showKeys();
  if (shownView().section === "review") return void views.review.key(event);
  if (event.key === "Escape") selection.clear();
  else if (selection.images.size && ACTIONS[key]) {
    event.preventDefault();
    ACTIONS[key][1]();
  }
});

// Other tabs, other processes, discoveries

let timer = null;
async function pulse() {
  clearTimeout(timer);
  let running = false;
  try {
    const { tag, discovery } = await get("api/pulse");
    running = views.discover.follow(discovery);
    await store.queue; // an action of this tab that is under way
    if (tag !== null && store.state && tag !== store.state.tag) await store.load();
    document.body.classList.remove("gone");
  } catch {
    document.body.classList.add("gone");
  }
  timer = setTimeout(pulse, running ? 400 : document.hidden ? 20000 : 2500);
}
document.addEventListener("visibilitychange", () => document.hidden || pulse());

store.addEventListener("change", refresh);
selection.addEventListener("change", showActions);
followSelection(selection, open);
followDrags(app, dropped);
followFiles((files, cls) => (cls === null ? views.discover.dropped(files) : views.teach.dropped(files, cls)));
chooseTheme(find("#theme"), () => views.map.map.repaint());
addEventListener("hashchange", () => (show(), scrollTo(0, 0)));

await store.load().catch(problem);
show();
document.body.classList.add("ready");
pulse();
