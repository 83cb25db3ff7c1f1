"use strict";
// Puts the scenes of a run into the slots of the page. Texts are set as texts: nothing that comes with a scene is read as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const moments = data.moments;          // [{at, changes}]: the first one has every slot, the others what changed
const MOST = 900;                      // moments kept while the page is open
let slots = new Map(), scene = {}, shown = -1, follows = true, chosen = null;
const byId = (id) => document.getElementById(id);

function findSlots() {
  slots = new Map();
  for (const node of document.querySelectorAll("[data-s]")) {
    if (!slots.has(node.dataset.s)) slots.set(node.dataset.s, []);
    slots.get(node.dataset.s).push(node);
  }
}

function put(values) {
  for (const [key, value] of Object.entries(values)) {
    const at = key.indexOf("@"), name = at < 0 ? key : key.slice(0, at);
    for (const node of slots.get(name) || []) {
      if (at < 0) node.textContent = value;
      else node.setAttribute(key.slice(at + 1), value);
    }
  }
}

function sceneAt(place) {
  const found = {};
  for (let i = 0; i <= place; i++) Object.assign(found, moments[i].changes);
  return found;
}

function show(place) {
  if (place < 0 || !moments.length) return;
  scene = place === shown + 1 && shown >= 0 ? Object.assign(scene, moments[place].changes) : sceneAt(place);
  shown = place;
  for (const plan of document.querySelectorAll("[data-plan]")) plan.hidden = plan.dataset.plan !== scene.plan;
  put(scene);
  markChosen();
  const range = byId("range");
  range.max = moments.length - 1;
  range.value = place;
  range.setAttribute("aria-valuetext", `${scene.clock} after the beginning, ${scene.status}`);
  byId("slider").hidden = moments.length < 2;
  byId("follow").hidden = follows || !data.live;
  if (chosen !== null) describe();
}

// --- a worker ---
const planNow = () => document.querySelector("[data-plan]:not([hidden])");
const drawn = () => [...(planNow() || document).querySelectorAll("g[data-w]")];
const workers = () => data.plans[Number(scene.plan)] || [];

function markChosen() {
  const all = drawn();
  for (const node of all) {
    node.classList.toggle("chosen", node.dataset.w === chosen);
    node.setAttribute("aria-pressed", String(node.dataset.w === chosen));
    node.setAttribute("tabindex", "-1");
  }
  const entry = all.find((node) => node === document.activeElement) || all.find((node) => node.dataset.w === chosen) || all[0];
  if (entry) entry.setAttribute("tabindex", "0");
}

function choose(number) {
  chosen = number;
  markChosen();
  describe();
}

function describe() {
  const worker = workers()[Number(chosen)];
  byId("worker").hidden = !worker;
  if (!worker) return;
  const value = (name) => scene[`w${chosen}.${name}`] || "-";
  byId("worker-name").textContent = `Worker ${worker.name}`;
  const facts = [["is", value("state")], ["host", value("host")], ["tags", worker.tags || "none: it forks and joins"], ["lanes", worker.lanes || "-"],
    ["events", value("rate")], ["synchronisations", value("syncs")], ["busy", value("busy")], ["waits", value("blocked")], ["holds", `${value("held")} events`]];
  fill(byId("worker-facts"), facts.flatMap(([name, text]) => [made("dt", name), made("dd", text)]));
  fill(byId("worker-story"), storyOf(chosen).map((line) => made("li", line)));
}

function storyOf(number) {
  const lines = [], found = {};
  let before = null;
  for (let i = 0; i <= shown; i++) {
    Object.assign(found, moments[i].changes);
    const kind = found[`w${number}@class`];
    if (kind && kind !== before) lines.push(`${found.clock}: ${found[`w${number}.state`]}`);
    before = kind;
  }
  return lines.slice(-12);
}

function made(name, text) {
  const node = document.createElement(name);
  node.textContent = text;
  return node;
}

function fill(node, parts) {
  node.replaceChildren(...parts);
}

function onPlanKey(event) {
  const all = drawn(), at = all.indexOf(event.target.closest("g[data-w]"));
  if (at < 0) return;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const next = event.key === "Home" ? 0 : event.key === "End" ? all.length - 1 : step ? at + step : -1;
  if (event.key === "Enter" || event.key === " ") choose(all[at].dataset.w);
  else if (all[next]) { all[next].focus(); markChosen(); }
  else return;
  event.preventDefault();
}

// --- time ---
function nearest(at) {
  let best = 0;
  moments.forEach((moment, i) => { if (Math.abs(moment.at - at) < Math.abs(moments[best].at - at)) best = i; });
  return best;
}

function seek(place) {
  follows = place === moments.length - 1;
  show(Math.max(0, Math.min(moments.length - 1, place)));
}

function onChartClick(event) {
  const chart = event.target.closest("svg.chart");
  if (!chart || !moments.length) return;
  const box = chart.getBoundingClientRect(), [left, right] = data.axis;
  const part = ((event.clientX - box.left) / box.width * data.width - left) / (right - left);
  const first = moments[0].at, last = moments[moments.length - 1].at;
  seek(nearest(first + Math.max(0, Math.min(1, part)) * (last - first)));
}

// --- live ---
function take(news) {
  if (news.shape !== data.shape) { location.reload(); return; }   // other workers, streams or sinks: drawn anew by the server
  if (news.charts) {
    byId("charts").innerHTML = news.charts;               // drawn by the server, which escapes every text
    byId("happenings").innerHTML = news.happenings;
    findSlots();
  }
  const last = moments[moments.length - 1];
  if (last && news.moment.at <= last.at) { Object.assign(last.changes, news.moment.changes); shown = -1; show(moments.length - 1); return; }
  moments.push(news.moment);
  if (moments.length > MOST) {
    Object.assign(moments[0].changes, moments[1].changes);
    moments[0].at = moments[1].at;
    moments.splice(1, 1);
    shown -= 1;
  }
  if (follows) show(moments.length - 1);
  else show(shown);
}

function listen() {
  const source = new EventSource(`events${location.search}`);
  source.addEventListener("moment", (event) => { byId("connection").textContent = ""; take(JSON.parse(event.data)); });
  source.addEventListener("end", () => { source.close(); data.live = false; byId("connection").textContent = ""; });
  source.onerror = () => { byId("connection").textContent = "The page has lost its server, and shows what it knew last."; };
}

findSlots();
byId("range").addEventListener("input", (event) => seek(Number(event.target.value)));
byId("follow").addEventListener("click", () => seek(moments.length - 1));
byId("charts").addEventListener("click", onChartClick);
byId("plan").addEventListener("keydown", onPlanKey);
document.addEventListener("click", (event) => {
  const node = event.target.closest("[data-w]");
  if (node) choose(node.dataset.w);
});
show(moments.length - 1);
if (data.live) listen();
