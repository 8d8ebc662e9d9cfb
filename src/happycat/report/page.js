/* The page around the map: cards, names and their commands, unsure images. */

import { Album } from "./album.js";
import { makeAll } from "./all.js";
import { chooseTheme, find, findAll, make, makeSortable, percent } from "./dom.js";
import { makeGalleries } from "./gallery.js";
import { makeLarge } from "./large.js";
import { makeLegend } from "./legend.js";
import { makeMap } from "./map.js";
import { explainNumbers } from "./meaning.js";
import { NONE } from "./marks.js";

const data = JSON.parse(document.getElementById("data").textContent);
const album = new Album(data);
const { marks, keys, members } = album;
const galleries = makeGalleries(album);
const open = makeLarge(album, data.originals, galleries.tip);
const showAll = makeAll(album, fill);

/** Fill a gallery; a click opens an image large, and its neighbours there are the images of `order`. */
function fill(gallery, images, captions, order = images) {
  galleries.fill(gallery, images, captions);
  gallery.onclick = (event) => {
    const thumb = event.target.closest(".thumb");
    if (thumb) open(Number(thumb.dataset.dot), order);
  };
}

for (const gallery of findAll("[data-dots]")) {
  const dots = gallery.dataset.dots.split(",").filter(Boolean).map(Number);
  fill(gallery, dots, "captions" in gallery.dataset && ((i) => percent(data.probability[i])));
}
for (const place of findAll("[data-class]")) place.append(...album.glyph(Number(place.dataset.class)).childNodes);
for (const place of findAll("[data-sample]")) {
  const best = album.best(Number(place.dataset.sample));
  if (best !== null && data.thumbnail[best]) place.append(galleries.picture(best));
}

/** A word for the shell; in double quotes where every shell reads them alike. */
function quoted(word) {
  if (/^[\w@%+=:,./][\w@%+=:,./-]*$/.test(word)) return word;
  return /^[\p{L}\p{N} _.,()-]+$/u.test(word) ? `"${word}"` : `'${word.replaceAll("'", "'\\''")}'`;
}

function command(id, name) {
  const model = data.model.startsWith("-") ? `./${data.model}` : data.model || "MODEL";
  const words = ["happycat", "name", quoted(model), `'#${id}'`, ...(name.startsWith("-") ? ["--"] : [])];
  return [...words, name ? quotedName(name) : '"…"'].join(" ");
}
const quotedName = (name) => (/^\w+$/.test(name) ? `"${name}"` : quoted(name));

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.body.appendChild(make("textarea", { style: "position: fixed; opacity: 0" }));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  const words = button.dataset.words ?? (button.dataset.words = button.textContent);
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = words), 1500);
}

const cards = findAll(".card");
const typed = (card) => find(".name", card).value.replace(/\p{C}+/gu, " ").trim();
function refresh(card) {
  const name = typed(card);
  find(".command", card).textContent = command(card.dataset.id, name);
  find(".copy", card).disabled = !name;
  find("#copy-all").disabled = !cards.some(typed);
}
for (const card of cards) {
  refresh(card);
  find(".name", card).oninput = () => refresh(card);
  find(".copy", card).onclick = (event) => copy(command(card.dataset.id, typed(card)), event.currentTarget);
}

if (cards.length) {
  const text = new Map();
  for (const card of cards) {
    const paths = members.get(Number(card.dataset.id)).map((i) => data.path[i]);
    text.set(card, [card.dataset.name, ...paths].join("\n").toLowerCase());
  }
  find("#card-filter").oninput = (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    for (const card of cards) card.hidden = !text.get(card).includes(wanted);
    find("#card-none").hidden = cards.some((card) => !card.hidden);
  };
  const order = () => {
    const by = find("#card-sort").value;
    const value = (card) => Number(card.dataset[by]);
    if (by === "name") cards.sort((a, b) => a.dataset.name.localeCompare(b.dataset.name, undefined, { numeric: true }));
    else cards.sort((a, b) => (by === "id" ? value(a) - value(b) : value(b) - value(a)));
    find(".cards").append(...cards);
  };
  find("#card-sort").onchange = order;
  order();
  find("#copy-all").onclick = (event) => {
    const lines = cards.filter(typed).map((card) => command(card.dataset.id, typed(card)));
    copy(lines.join("\n"), event.currentTarget);
  };
}

const map = find("#map canvas") && makeMap(find("#map"), album, galleries.tip, { open: (i) => open(i) });
const legend = map && makeLegend(map, album);
for (const button of findAll("[data-locate]")) {
  button.onclick = () => {
    legend.only(Number(button.dataset.locate));
    find("#map").scrollIntoView();
  };
}
for (const button of findAll("[data-all]")) button.onclick = () => showAll(Number(button.dataset.all));
explainNumbers();
chooseTheme(find("#theme"), () => map?.repaint());
findAll(".sortable").forEach(makeSortable);

if (find("#unsure")) {
  const most = 48;
  const all = data.path.map((_, i) => i).filter((i) => data.unsure[i] || keys[i] === NONE);
  all.sort((a, b) => data.probability[a] - data.probability[b]);
  const used = new Set(all.map((i) => keys[i]));
  const options = [...marks].filter(([key]) => used.has(key));
  find("#unsure-class").append(...options.map(([key, { name }]) => make("option", { value: key }, name)));
  let room = most;
  const show = () => {
    const wanted = find("#unsure-filter").value.trim().toLowerCase();
    const chosen = find("#unsure-class").value;
    const right = (i) => `${marks.get(keys[i]).name}\n${data.path[i]}`.toLowerCase().includes(wanted);
    const found = all.filter((i) => (!chosen || String(keys[i]) === chosen) && right(i));
    const words = (i) => (keys[i] === NONE ? "no class fits" : album.about(i));
    fill(find("#unsure-gallery"), found.slice(0, room), words, found);
    const count = found.length < all.length ? `${found.length} of ${all.length}, least probable first` : "Least probable first; the percentage is the probability of the class";
    find("#unsure-count").textContent = found.length ? count : "No unsure image matches.";
    find("#unsure-more").hidden = found.length <= room;
  };
  find("#unsure-filter").oninput = find("#unsure-class").onchange = () => ((room = most), show());
  find("#unsure-more").onclick = () => ((room += 4 * most), show());
  show();
}
