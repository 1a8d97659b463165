// The search: it loads all sections of all pages once, and finds those that have every word.
"use strict";

const root = document.body.dataset.root;
const input = document.getElementById("search");
const list = document.getElementById("results");
const most = 12;
let entries = null;
let chosen = -1;

async function load() {
  if (entries) return entries;
  const response = await fetch(root + "search.json");
  if (!response.ok) throw new Error("the server responds " + response.status);
  entries = (await response.json()).map((e) => ({ ...e, page: e.p.toLowerCase(), heading: e.h.toLowerCase(), text: e.t.toLowerCase() }));
  return entries;
}

// score is 0 if a word is missing. A word in a heading counts more than one in the title of the page or in the text.
function score(entry, words) {
  let sum = 0;
  for (const word of words) {
    let best = 0;
    if (entry.heading.includes(word)) best = entry.heading === word ? 20 : 10;
    else if (entry.page.includes(word)) best = 5;
    if (entry.text.includes(word)) best += 2;
    if (best === 0) return 0;
    sum += best;
  }
  return sum;
}

// excerpt returns a node with the text around the first word that is found, with the word marked.
function excerpt(entry, words) {
  const node = document.createElement("span");
  let at = -1;
  let length = 0;
  for (const word of words) {
    at = entry.text.indexOf(word);
    length = word.length;
    if (at >= 0) break;
  }
  if (at < 0) {
    node.textContent = entry.t.slice(0, 140);
    return node;
  }
  const start = Math.max(0, at - 50);
  const mark = document.createElement("mark");
  mark.textContent = entry.t.slice(at, at + length);
  node.append((start > 0 ? "…" : "") + entry.t.slice(start, at), mark, entry.t.slice(at + length, at + 110));
  return node;
}

function show(found, words) {
  chosen = -1;
  list.replaceChildren();
  list.hidden = words.length === 0;
  if (!found.length) {
    const none = document.createElement("p");
    none.textContent = "Nothing found.";
    list.append(none);
  }
  for (const entry of found) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    const title = document.createElement("b");
    link.href = root + entry.f;
    title.textContent = entry.h && entry.h !== entry.p ? entry.p + " › " + entry.h : entry.p;
    link.append(title, excerpt(entry, words));
    item.append(link);
    list.append(item);
  }
}

async function search() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  try {
    const all = await load();
    const found = all.map((entry) => ({ entry, score: score(entry, words) })).filter((f) => words.length && f.score > 0);
    found.sort((a, b) => b.score - a.score);
    show(found.slice(0, most).map((f) => f.entry), words);
  } catch (err) {
    list.hidden = false;
    list.textContent = "The search does not work: " + err.message;
  }
}

function choose(step) {
  const links = list.querySelectorAll("a");
  if (!links.length) return;
  links[chosen]?.classList.remove("chosen");
  chosen = (chosen + step + links.length) % links.length;
  links[chosen].classList.add("chosen");
  links[chosen].scrollIntoView({ block: "nearest" });
}

input.addEventListener("input", search);
input.addEventListener("keydown", (event) => {
  switch (event.key) {
    case "ArrowDown": choose(1); break;
    case "ArrowUp": choose(-1); break;
    case "Enter": (list.querySelector("a.chosen") ?? list.querySelector("a"))?.click(); list.hidden = true; break;
    case "Escape": list.hidden = true; input.blur(); break;
    default: return;
  }
  event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== input) {
    input.focus();
    event.preventDefault();
  }
});
document.addEventListener("click", (event) => {
  if (!event.target.closest("header")) list.hidden = true;
});
