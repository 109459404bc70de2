// SPDX-License-Identifier: Apache-2.0
// Views by the address's hash.  Everything that the service says is text, never markup:
// textContent and attributes only.
"use strict";

const FIRST_ROWS = 10;
const LIVE_MS = 5000; // a start that is not ready is asked for again
const narrow = matchMedia("(max-width: 600px)");
const main = document.getElementById("main");
const message = document.getElementById("message");
const login = document.getElementById("login");
const token = document.getElementById("token");
const unfolded = new Set(); // tables of which all rows are shown
let turn = 0; // of the newest view: what an older one asked for is not shown

function make(tag, text, name) {
	const e = document.createElement(tag);

	if (text !== undefined)
		e.textContent = text;
	if (name)
		e.className = name;
	return e;
}

// "4.2 s", "5 min 3 s", "2 h 5 min", "3 d 4 h", as common/duration.h has it.
function seconds(s) {
	const units = [[3600, 60, 1, "min", "s"], [86400, 3600, 60, "h", "min"], [Infinity, 86400, 3600, "d", "h"]];

	if (s < 0)
		return "-" + seconds(-s);
	if (s < 59.95)
		return s.toFixed(1) + " s";
	const [, unit, part, name, partName] = units.find((u) => Math.round(s) < u[0]);
	const n = Math.floor(Math.round(s) / part) * part;
	const rest = n % unit / part;

	return Math.floor(n / unit) + " " + name + (rest ? " " + rest + " " + partName : "");
}

// Of an axis.
function secondsTick(s) {
	return s < 60 ? Number(s.toFixed(2)) + " s" : seconds(s);
}

function hours(h) {
	if (h > 0 && h < 1)
		return seconds(h < 1 / 60 ? h * 3600 : 60 * Math.round(h * 60));
	return (h > 0 && h < 100 ? h.toPrecision(3) : h.toFixed(0)) + " h";
}

function size(n) {
	const units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
	let i = 0;

	for (; n >= 999.5 && i < units.length - 1; i++)
		n /= 1000;
	return (i ? n.toPrecision(3) : String(n)) + " " + units[i];
}

function share(part, whole) {
	return whole > 0 ? (100 * part / whole).toFixed(0) + " %" : "-";
}

// The browser's time, without what goes without saying: today's day, this year, of other days the second.
function when(ms) {
	const at = new Date(ms), now = new Date();
	const two = (n) => String(n).padStart(2, "0");
	const time = two(at.getHours()) + ":" + two(at.getMinutes());
	const day = at.getFullYear() + "-" + two(at.getMonth() + 1) + "-" + two(at.getDate());

	if (at.toDateString() === now.toDateString())
		return time + ":" + two(at.getSeconds());
	return (at.getFullYear() === now.getFullYear() ? day.slice(5) : day) + " " + time;
}

// The day of a count of days since 1970, which are those of UTC.
function dayOf(days) {
	return new Date(days * 86400000).toISOString().slice(0, 10);
}

// "3 min ago", with the whole time where it is pointed at.
function ago(ms) {
	const s = (Date.now() - ms) / 1000;
	const e = make("time", s < 60 ? "just now" : seconds(s < 3600 ? 60 * Math.floor(s / 60) : s < 172800
		? 3600 * Math.floor(s / 3600) : 86400 * Math.floor(s / 86400)) + " ago");

	e.dateTime = new Date(ms).toISOString();
	e.title = new Date(ms).toLocaleString() + ", " + e.dateTime;
	return e;
}

// "when, how long ago".
function moment(ms) {
	const e = make("span", when(ms) + " ");

	e.append(make("small"));
	e.lastChild.append(ago(ms));
	return e;
}

// Why there is nothing to show, and what changes that.
function nothing(text, command) {
	const p = make("p", text, "nothing");

	if (command)
		p.append(" ", make("code", command));
	return p;
}

async function ask(path) {
	const headers = {};
	const kept = sessionStorage.getItem("token");

	if (kept)
		headers.Authorization = "Bearer " + kept;
	const answer = await fetch(path, { headers, cache: "no-store" });
	const body = await answer.json();

	// Where everybody may see all there is no field for a token.
	login.hidden = login.hidden && !kept && answer.status !== 401 && answer.status !== 403;
	if (!answer.ok)
		throw new Error(body.error ? body.error.message : String(answer.status));
	return body;
}

// columns: [title, of a row: text or element, is it a number, is it left out where no row has it]
function table(all, rows) {
	const has = (cell) => (cell.textContent ?? cell) !== "";
	const columns = all.filter(([, get, , isSparse]) => !isSparse || rows.some((r) => has(get(r))));
	const box = make("div", undefined, "wide");
	const t = box.appendChild(make("table"));
	const head = t.appendChild(make("thead")).appendChild(make("tr"));
	const body = t.appendChild(make("tbody"));

	// What scrolls is to be reached by keys.
	box.tabIndex = 0;
	box.setAttribute("role", "group");
	box.setAttribute("aria-label", columns.map((c) => c[0]).join(", "));
	for (const [title, , number] of columns) {
		const th = head.appendChild(make("th", title, number ? "number" : ""));

		th.scope = "col";
	}
	for (const row of rows) {
		const tr = body.appendChild(make("tr"));

		for (const [title, get, number] of columns) {
			const td = tr.appendChild(make("td", undefined, number ? "number" : ""));

			// On a phone a row is a card, in which each value has its name.
			if (narrow.matches)
				td.dataset.name = title;
			td.append(get(row));
		}
	}
	return box;
}

// The first of many rows, and a button for the others, which then stay.
function firstRows(columns, rows) {
	const box = make("div");
	const key = location.hash + " " + columns.map((c) => c[0]);
	const isCut = rows.length > FIRST_ROWS && !unfolded.has(key);

	box.append(table(columns, isCut ? rows.slice(0, FIRST_ROWS) : rows));
	if (isCut) {
		const button = box.appendChild(make("button", "Show all " + rows.length));

		button.addEventListener("click", () => {
			unfolded.add(key);
			box.replaceChildren(table(columns, rows));
		});
	}
	return box;
}

function link(text, hash) {
	const a = make("a", text);

	a.href = "#" + hash;
	return a;
}

function nodeLink(name, slow) {
	const a = link(name, "node/" + name);

	if (slow)
		a.className = "slow";
	return a;
}

// Of links in a row that lead to views: this one is shown, or one below it.
function markCurrent(a, is, what = "true") {
	if (is)
		a.setAttribute("aria-current", what);
	else
		a.removeAttribute("aria-current");
}

function part(view, title, ...more) {
	view.append(make("h2", title), ...more);
}

// ---------------------------------------------------------------------- list

function filterRows(box, input) {
	const words = input.value.toLowerCase().split(" ").filter(Boolean);

	for (const tr of box.querySelectorAll("tbody tr")) {
		const text = tr.textContent.toLowerCase();

		tr.hidden = !words.every((w) => text.includes(w));
	}
}

function searchOf(box) {
	const label = make("label", "Search ");
	const input = label.appendChild(make("input"));

	input.type = "search";
	input.id = "search";
	input.addEventListener("input", () => filterRows(box, input));
	return label;
}

// The title of a view, and a search among its rows beside it.
function headOf(title, view) {
	const head = make("div", undefined, "head");

	head.append(make("h2", title), searchOf(view));
	return head;
}

// What became of a start: it trains, waits, failed, or is not expected any more.
function stateOf(s) {
	const failed = s.summary && s.summary.failed;

	return s.ready ? ["trains", "good"] : failed ? ["failed", "slow"] : s.state === "open" ? ["starting", "busy"]
		: ["stopped", "idle"];
}

function stateBadge(s) {
	const [word, name] = stateOf(s);

	return make("span", word, "badge " + name);
}

// The stages of the median node as one small bar, all starts to one scale.
function miniBar(s, longest, map) {
	const bar = make("span", undefined, "mini");
	const stages = s.summary ? s.summary.stages : [];
	const sum = stages.reduce((n, p) => n + p[1], 0);
	const whole = Math.max(s.duration_s, sum);
	const said = stages.map(([name, took]) => name + " " + seconds(took));

	bar.style.setProperty("width", Math.max(2, Math.min(100, 100 * whole / longest)) + "%");
	bar.title = said.join(", ");
	bar.setAttribute("role", "img");
	bar.setAttribute("aria-label", "median node: " + (said.join(", ") || "no stage yet"));
	for (const [name, took] of stages) {
		const p = bar.appendChild(make("span"));

		p.style.setProperty("width", (whole ? 100 * took / whole : 0) + "%");
		p.style.setProperty("background", map.get(name));
	}
	return bar;
}

// A long one leaves the others visible: the scale ends where nine of ten do.
function longestOf(starts) {
	const over = starts.filter((s) => s.ready);
	const sorted = (over.length ? over : starts).map((s) => s.duration_s).sort((a, b) => a - b);

	return Math.max(sorted[Math.floor((sorted.length - 1) * 0.9)] || 0, 1);
}

const HOT = "hot_update";

function attemptOf(s) {
	return "attempt " + s.attempt + (s.class === HOT ? ", hot update" : "");
}

function nameOf(s) {
	const cell = make("span", undefined, "start");
	const more = make("small", s.attempt ? attemptOf(s) : "");

	cell.append(stateBadge(s), link(s.job, "start/" + s.id), more);
	if (s.label)
		more.append(" ", link(s.label, "label/" + s.label));
	if (s.image)
		more.append(" ", link(s.image, "image/" + s.image));
	if (!s.ready && s.summary && s.summary.failed)
		cell.append(make("small", "failed: " + s.summary.failed, "why slow"));
	else if (s.waiting)
		cell.append(make("small", (s.state === "open" ? "waiting for " : "waited for ") + s.waiting.text, "why"));
	return cell;
}

function startsTable(starts, map, longest) {
	const of = (get) => (s) => (s.summary ? get(s.summary) : "");

	const box = table([
		["Job", nameOf],
		["Began", (s) => moment(s.begin_ms)],
		["Took", (s) => seconds(s.duration_s), true],
		["Stages", (s) => miniBar(s, longest, map)],
		["Nodes", (s) => String(s.nodes_all || ""), true],
		["Max/Median", of((n) => (n.max_median ? n.max_median.toFixed(2) : "")), true],
		["Stragglers", of((n) => make("span", String(n.stragglers || ""), "slow")), true],
	], starts);

	// Two of them, one below the other, have the same columns.
	box.classList.add("starts");
	return box;
}

function coloursOf(starts) {
	return colours(new Set(starts.flatMap((s) => (s.summary ? s.summary.stages.map((p) => p[0]) : []))));
}

// Of one that was silent for a day, or was started again, nobody expects an end.
function isLive(start) {
	return start.state === "open";
}

function listView(found, title, chart = []) {
	const view = make("section");
	const live = found.starts.filter(isLive);
	const rest = found.starts.filter((s) => !isLive(s));
	const map = coloursOf(found.starts);
	const longest = longestOf(found.starts);

	view.append(found.starts.length ? headOf(title, view) : make("h2", title));
	if (map.size)
		view.append(legend(map));
	view.append(...chart);
	if (live.length) {
		view.append(make("h3", "Not begun to train: " + live.length), startsTable(live, map, longest));
		if (rest.length)
			view.append(make("h3", "Others"));
	}
	if (rest.length)
		view.append(startsTable(rest, map, longest));
	if (!found.starts.length)
		view.append(nothing("No start was reported yet. A job's log has its events:",
			"bootseer stage send --service " + location.origin + " --job NAME LOG"));
	return view;
}

// All starts; while some of them are under way, again and again, unless somebody searches.
async function startsView() {
	const found = await ask("/v1/starts?limit=1000");
	const hash = location.hash;
	const again = () => {
		const search = document.getElementById("search");

		if (location.hash !== hash)
			return;
		if (search && (search.value || search === document.activeElement))
			setTimeout(again, LIVE_MS);
		else
			show();
	};

	if (found.starts.some(isLive))
		setTimeout(again, LIVE_MS);
	return listView(found, "Starts");
}

// --------------------------------------------------------------------- start

// What the start was spent on: the median node's stages, one after the other.
function breakdown(start, map) {
	const row = (name, of) => [name, start.stages.filter((s) => s.top).map((s) => [s.stage, of(s), map.get(s.stage)])];

	return partsChart("What the time went to", [row("median node", (s) => s.node.median_s),
		row("slowest of each", (s) => s.node.max_s)], seconds);
}

function stageBoxes(start, map) {
	return boxChart("Nodes of each stage", start.stages.map((s) => [s.stage, s.node.nodes ? { n: s.node.nodes,
		min: s.node.min_s, p25: s.node.p25_s, median: s.node.median_s, p75: s.node.p75_s, max: s.node.max_s }
		: null, map.get(s.stage)]), seconds);
}

// Nodes as rows of a canvas, of which only those in sight are drawn: thousands of nodes
// with tens of stages each scroll like few.
const ROW = 18;

function barsCanvas(bars, map) {
	const box = make("div", undefined, "bars");
	const space = box.appendChild(make("div"));
	const canvas = space.appendChild(make("canvas"));
	const tip = make("p", "Point at a bar, or move with the arrow keys.", "tip");
	const whole = (bars.duration_s || 1) * 1000;
	const inner = bars.stages.map((s) => map.get(s));
	const domain = domainOf(bars.nodes.map((n) => n[0]));
	const palette = Object.fromEntries(["line", "bar", "slow", "text"].map((name) => [name, theme(name)]));
	let at = -1; // the row that is told of
	let waiting = false;

	box.tabIndex = 0;
	box.setAttribute("role", "group");
	box.setAttribute("aria-label", "Nodes with their stages, the slowest first");
	canvas.setAttribute("aria-hidden", "true");
	tip.setAttribute("role", "status");
	space.style.setProperty("height", bars.nodes.length * ROW + "px");

	function names() {
		return Math.min(170, box.clientWidth / 3);
	}
	function paint() {
		waiting = false;
		if (!box.isConnected)
			return;
		const ratio = window.devicePixelRatio || 1;
		const w = box.clientWidth, h = box.clientHeight, left = names();
		const first = Math.floor(box.scrollTop / ROW);
		const g = canvas.getContext("2d");

		if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
			canvas.width = Math.round(w * ratio);
			canvas.height = Math.round(h * ratio);
			canvas.style.setProperty("height", h + "px");
		}
		g.setTransform(ratio, 0, 0, ratio, 0, 0);
		g.clearRect(0, 0, w, h);
		g.font = "12px system-ui, sans-serif";
		g.textBaseline = "middle";
		for (let i = first; i < bars.nodes.length && (i - first) * ROW < h + ROW; i++) {
			const [name, busy, slow, runs] = bars.nodes[i];
			const y = i * ROW - box.scrollTop;
			const scale = (w - left - 4) / whole;

			g.fillStyle = i === at ? palette.line : palette.bar;
			g.fillRect(left, y + 1, w - left - 4, ROW - 2);
			for (let k = 0; k < runs.length; k += 4) {
				if (!(runs[k + 3] & 2))
					continue;
				g.fillStyle = (runs[k + 3] & 17) === 1 ? palette.slow : inner[runs[k]];
				g.fillRect(left + runs[k + 1] * scale, y + 2,
					Math.max(1, runs[k + 2] * scale), ROW - 4);
				// What failed ends in a mark, and so does what is waited for.
				if (runs[k + 3] & 8 || (runs[k + 3] & 16 && slow & 2)) {
					g.fillStyle = palette.slow;
					g.fillRect(left + (runs[k + 1] + runs[k + 2]) * scale - 4, y + 1, 4, ROW - 2);
				}
			}
			g.fillStyle = slow ? palette.slow : palette.text;
			g.fillText(shortName(name.slice(0, name.length - domain.length), Math.floor((left - 76) / 7)),
				2, y + ROW / 2, left - 76);
			g.textAlign = "right";
			g.fillText(seconds(busy), left - 6, y + ROW / 2);
			g.textAlign = "left";
		}
	}
	function later() {
		if (!waiting)
			requestAnimationFrame(paint);
		waiting = true;
	}
	function tell(row, ms) {
		const [name, busy, slow, runs] = bars.nodes[row];
		const said = [];

		at = row;
		for (let k = 0; k < runs.length; k += 4)
			if (ms === null ? runs[k + 3] & 2 : runs[k + 1] <= ms && ms <= runs[k + 1] + runs[k + 2])
				said.push(bars.stages[runs[k]] + " " + (runs[k + 3] & 16 ? "for " + seconds(runs[k + 2] / 1000)
					: runs[k + 3] & 1 ? "without an end" : seconds(runs[k + 2] / 1000)) +
					(runs[k + 3] & 8 ? ", failed" : ""));
		tip.replaceChildren(nodeLink(name, slow), " " + seconds(busy) + ": " +
			(said.slice(0, 12).join(", ") || "nothing then"));
		later();
	}
	box.addEventListener("scroll", later, { passive: true });
	box.addEventListener("pointermove", (e) => {
		const r = box.getBoundingClientRect();
		const row = Math.floor((e.clientY - r.top + box.scrollTop) / ROW);

		if (row >= 0 && row < bars.nodes.length)
			tell(row, (e.clientX - r.left - names()) / (box.clientWidth - names() - 4) * whole);
	});
	box.addEventListener("keydown", (e) => {
		const step = stepOf(e);

		if (e.key === "Enter" && at >= 0)
			location.hash = "node/" + bars.nodes[at][0];
		if (!step || !bars.nodes.length)
			return;
		e.preventDefault();
		const row = Math.max(0, Math.min(bars.nodes.length - 1, at + step));

		if (row * ROW < box.scrollTop || (row + 1) * ROW > box.scrollTop + box.clientHeight)
			box.scrollTop = row * ROW - box.clientHeight / 2;
		tell(row, null);
	});
	new ResizeObserver(later).observe(box);
	return [box, axis(bars.duration_s), tip];
}

// Times below the bars, which begin where the names end.
function axis(whole) {
	const line = make("p", undefined, "axis");

	line.setAttribute("aria-label", "From 0 to " + seconds(whole));
	const step = stepOfSeconds(whole);

	for (let at = 0; at <= whole * 0.97; at += step) {
		const tick = line.appendChild(make("span", secondsTick(at)));

		tick.style.setProperty("left", 100 * at / whole + "%");
	}
	return line;
}

function stagesTable(start) {
	// Of a stage that no node has ended there is nothing to say.
	const of = (get) => (s) => (s.node.nodes ? get(s.node) : "-");

	return table([
		["Stage", (s) => s.stage],
		["Nodes", (s) => String(s.node.nodes), true],
		["Median", of((n) => seconds(n.median_s)), true],
		["P95", of((n) => seconds(n.p95_s)), true],
		["Max", of((n) => seconds(n.max_s)), true],
		["Max/Median", of((n) => n.max_median.toFixed(2)), true],
		["Job", (s) => seconds(s.job_s), true],
		["Retries", (s) => String(s.retries || ""), true, true],
		["Failed", (s) => make("span", String(s.failed || ""), "slow"), true, true],
		["No end", (s) => String(s.open || ""), true, true],
		["Stragglers", (s) => make("span", String(s.stragglers || ""), "slow"), true, true],
	], start.stages);
}

function factsOf(facts) {
	const list = make("dl", undefined, "facts");

	for (const [name, value] of facts) {
		const box = list.appendChild(make("div"));

		box.append(make("dt", name));
		box.appendChild(make("dd")).append(value);
	}
	return list;
}

// The first lines of a start: what failed, and whom it waits for.
function nowPart(start) {
	const box = make("div", undefined, "now");
	const w = start.waiting, f = start.failed;

	if (f && f.text)
		box.append(make("p", "Failed: " + f.text, "bad"));
	if (f && f.mended)
		box.append(make("p", "Failed at first: " + f.mended, "busy"));
	// A node that failed is not to be waited for once more.
	if (w && (!start.ready || w.nodes.length) &&
		!(f && f.text && w.nodes.every((x) => f.runs.some((y) => y.node === x.node && !y.mended))))
		box.append(make("p", (start.state === "stopped" ? "Waited for " : "Waiting for ") + w.text, "busy"));
	if (f && f.all)
		box.append(details("Stages that failed, the first one first: " + f.all, table([
			["Node", (x) => nodeLink(x.node, !x.mended)],
			["Rank", (x) => String(x.rank ?? ""), true, true],
			["Stage", (x) => x.stage],
			["Status", (x) => String(x.status), true],
			["After", (x) => seconds(x.at_s), true],
			["Went well later", (x) => (x.mended ? "yes" : "no")],
		], f.runs), !start.ready && f.all <= 5));
	if (w && w.nodes.length)
		box.append(details("Nodes that are waited for: " + w.all, table([
			["Node", (x) => nodeLink(x.node, true)],
			["Rank", (x) => String(x.rank ?? ""), true, true],
			["Stage", (x) => x.stage],
			["State", (x) => (x.in ? "in it" : "not begun")],
			["For", (x) => seconds(x.for_s), true],
			["Through", (x) => x.done + " of " + x.of, true],
			["Last heard", (x) => seconds(x.heard_s) + " ago"],
			["Said last", (x) => x.said],
		], w.nodes), w.all <= 5));
	return box;
}

function details(title, body, open) {
	const d = make("details");

	d.open = open;
	d.append(make("summary", title), body);
	return d;
}

function summary(start) {
	const n = start.node_level, l = start.lost;
	const facts = [
		[start.ready ? "Until training began" : "So far", seconds(start.duration_s)],
		["Nodes", String(start.nodes_all)],
		["Median node", seconds(n.median_s)],
		["Slowest node", seconds(n.max_s)],
		["Max/Median", n.max_median.toFixed(2)],
		["Node time", hours(l.node_s / 3600)],
		["Waiting for others", l.node_s ? (100 * l.wait_s / l.node_s).toFixed(0) + " %" : "-"],
	];

	if (l.gpu_s)
		facts.push(["GPU time", hours(l.gpu_s / 3600)]);
	if (l.job_share)
		facts.push(["Share of the job", (100 * l.job_share).toFixed(1) + " %"]);
	return factsOf(facts);
}

function startView(start, bars) {
	const view = make("section");
	const top = start.stages.filter((s) => s.top);
	const map = colours(new Set([...top, ...start.stages].map((s) => s.stage).concat(bars.stages)));
	const links = make("p", undefined, "links");

	view.append(make("h2", start.job + ", " + attemptOf(start)), links);
	links.append(stateBadge({ ...start, summary: start.failed ? { failed: start.failed.text } : null }), " ",
		moment(start.begin_ms), " ");
	if (start.image)
		links.append("image ", link(start.image, "image/" + start.image), " ");
	if (start.label)
		links.append("label ", link(start.label, "label/" + start.label), " ");
	links.append(link("earlier starts of this job", "job/" + start.job), " ",
		link("checkpoints", "checkpoints/" + start.id), " ",
		link("peers", "peers/start/" + start.id));
	view.append(nowPart(start), summary(start));
	if (start.stragglers.length)
		part(view, "Stragglers: " + start.stragglers.length, firstRows([
			["Node", (s) => nodeLink(s.node, true)],
			["Stage", (s) => s.stage],
			["Likely cause", (s) => s.cause.replace("_", " ")],
			["Took", (s) => seconds(s.duration_s), true],
			["More than the median", (s) => seconds(s.excess_s), true],
			["Why", (s) => s.why],
		], start.stragglers.slice().sort((a, b) => b.excess_s - a.excess_s)));
	part(view, "Nodes, the slowest first: " + bars.nodes.length, legend(top.map((s) => [s.stage, map.get(s.stage)])), ...barsCanvas(bars, map));
	part(view, "What the time went to", breakdown(start, map));
	part(view, "Nodes of each stage: half of them in the box", stageBoxes(start, map));
	view.append(...histogram(start, bars, map));
	part(view, "Stages", stagesTable(start));
	part(view, "Critical path", steps(start, map), details("Each step", table([
		["Node", (s) => nodeLink(s.node)],
		["Stage", (s) => s.stage],
		["At", (s) => seconds(s.at_s), true],
		["Took", (s) => seconds(s.duration_s), true],
		["After a gap of", (s) => (s.gap_s ? seconds(s.gap_s) : ""), true],
	], start.critical_path), false));
	return view;
}

// ------------------------------------------------------- job, compare, trends

function compareView(c) {
	const view = make("section");
	const cell = (s, key) => (s ? seconds(s[key]) : "-");

	view.append(make("h2", c.a.job + ", " + attemptOf(c.a) + ", and " + (c.a.job === c.b.job ? "" : c.b.job + ", ") +
		attemptOf(c.b) + ": " + (c.change_s > 0 ? "+" : "") + seconds(c.change_s)));
	view.append(table([
		["Which", (s) => s.name],
		["Job", (s) => link(s.of.job, "start/" + s.of.id)],
		["Attempt", (s) => String(s.of.attempt), true],
		["Began", (s) => moment(s.of.begin_ms)],
		["Duration", (s) => seconds(s.of.duration_s), true],
		["Nodes", (s) => String(s.of.nodes_all), true],
		["Max/Median", (s) => s.of.node_level.max_median.toFixed(2), true],
	], [{ name: "A", of: c.a }, { name: "B", of: c.b }]));
	part(view, "Stages, from the first node's begin to the last one's end", ...sides(c.stages), table([
		["Stage", (s) => s.stage],
		["Job A", (s) => cell(s.a, "job_s"), true],
		["Job B", (s) => cell(s.b, "job_s"), true],
		["Change", (s) => change(s.change_s, s.a ? s.a.job_s : 0), true],
		["Median A", (s) => cell(s.a, "median_s"), true],
		["Median B", (s) => cell(s.b, "median_s"), true],
		["Max A", (s) => cell(s.a, "max_s"), true],
		["Max B", (s) => cell(s.b, "max_s"), true],
	], c.stages));
	return view;
}

// Attempts as columns of the median node's stages, up to when training began, the oldest first.
function attemptsChart(starts, map) {
	const shown = starts.filter((s) => s.summary).slice(0, HISTORY_MOST).reverse();
	const names = shown.map(attemptOf);
	const sums = shown.map((s) => s.summary.stages.reduce((n, p) => n + p[1], 0));
	const series = [...map].map(([stage, colour]) => {
		const data = shown.map((s) => (s.summary.stages.find((p) => p[0] === stage) || [])[1] ?? null);

		return { colour, data, texts: data.map((n, i) => (n === null ? "" : names[i] + ", " + stage + ": " + seconds(n))) };
	});
	const rest = shown.map((s, i) => Math.max(0, s.duration_s - sums[i]) || null);

	series.push({ colour: theme("line"), data: rest, texts: rest.map((n, i) => (n === null ? "" : names[i] + ", " +
		(shown[i].ready ? "waiting for other nodes" : "not begun to train") + ": " + seconds(n))) });
	return shown.length > 1 ? [make("h3", "Attempts: the median node's stages, and above them what it waited for others"),
		barChart("Attempts", names, series, { stacked: true, say: seconds })] : [];
}

function jobView(found, job) {
	const view = listView(found, "Starts of " + job, attemptsChart(found.starts, coloursOf(found.starts)));
	const pairs = found.starts.slice(0, -1).map((s, i) => [found.starts[i + 1], s]);

	if (pairs.length)
		part(view, "Compare", firstRows([
			["Start", (p) => link(attemptOf(p[1]), "start/" + p[1].id)],
			["Began", (p) => moment(p[1].begin_ms)],
			["Took", (p) => seconds(p[1].duration_s), true],
			["Change", (p) => change(p[1].duration_s - p[0].duration_s, p[0].duration_s), true],
			["Compare", (p) => link("with the one before", "compare/" + p[0].id + "/" + p[1].id)],
		], pairs));
	part(view, "Checkpoints", make("p"));
	view.lastChild.append(link("what its starts loaded and saved", "checkpoints/job/" + job));
	return view;
}

// By so much more than `of`, which is worth a look from a tenth on.
function change(s, of) {
	return make("span", (s > 0 ? "+" : "") + seconds(s), s > Math.max(1, of / 10) ? "slow" : "");
}

// Columns by day, one colour for each stage, on top of one another: what a stage has of the
// mean start of the day, also where some starts do without it.  Stages within others are in these.
function columnsOf(rows, map) {
	const of = rows.filter((r) => r.stage && 2 * r.top >= r.starts);
	const stages = [...new Set(of.map((r) => r.stage))].sort(byCourse);
	const days = [...new Set(rows.map((r) => r.key))];
	const isOneYear = dayOf(days[0]).slice(0, 4) === dayOf(days[days.length - 1]).slice(0, 4);
	const names = days.map((d) => dayOf(d).slice(isOneYear ? 5 : 0));
	const all = new Map(rows.filter((r) => !r.stage).map((r) => [r.key, r.starts]));
	const took = new Map(of.map((r) => [r.key + " " + r.stage, r.median_s * r.starts / (all.get(r.key) || r.starts)]));

	return [legend(stages.map((s) => [s, map.get(s)])), barChart("Stages of the median nodes by day", names, stages.map((stage) => {
		const data = days.map((d) => took.get(d + " " + stage) ?? null);

		return { colour: map.get(stage), data, texts: data.map((n, i) => (n === null ? "" : names[i] + ", " + stage + ": " + seconds(n))) };
	}), { stacked: true, say: seconds })];
}

function trendTable(rows, title, name) {
	return table([
		[title, (r) => name(r.key)],
		["Starts", (r) => String(r.starts), true],
		["Nodes", (r) => String(r.nodes), true],
		["Start", (r) => seconds(r.job_s), true],
		["Median node", (r) => seconds(r.median_s), true],
		["Slowest node", (r) => seconds(r.worst_s), true],
		["Stragglers", (r) => String(r.stragglers || ""), true, true],
		["Node time", (r) => hours(r.node_hours), true],
		["Waiting", (r) => hours(r.wait_hours), true],
	], rows.filter((r) => !r.stage));
}

// What is below it is of full starts: the means of the two together would be of neither.
function classPart(view, classes) {
	if (classes.rows.some((r) => r.key === HOT))
		part(view, "By class; all else here is of full starts",
			trendTable(classes.rows, "Class", (k) => k.replace("_", " ")));
}

function trendView(title, scales, days, classes, images, labels) {
	const view = make("section");

	view.append(make("h2", title));
	classPart(view, classes);
	if (!days.rows.length) {
		view.append(nothing("No start is over yet: that is a minute after training began."));
		return view;
	}
	const map = colours(new Set([...days.rows, ...scales.stages].map((r) => r.stage).filter(Boolean)));

	view.append(make("p", "Stages of the median node, their share of the day's mean start"),
		...columnsOf(days.rows, map));
	scaleParts(view, scales, map);
	part(view, "By day", trendTable(days.rows, "Day", dayOf));
	if (images)
		part(view, "By image", trendTable(images.rows, "Image",
			(k) => (k ? link(k, "image/" + k) : "not said")));
	if (labels)
		part(view, "By label", trendTable(labels.rows, "Label",
			(k) => (k ? link(k, "label/" + k) : "not said")));
	return view;
}

async function groupView(kind, name) {
	const q = kind + "=" + encodeURIComponent(name);
	const [scales, trend, classes, starts, parts] = await Promise.all([
		ask("/v1/scales?days=90&class=full&" + q), ask("/v1/trends?days=90&class=full&" + q),
		ask("/v1/trends?days=90&by=class&" + q), ask("/v1/starts?limit=200&" + q),
		kind === "image" ? imageParts(name) : ""]);
	const view = trendView((kind === "image" ? "Image " : "Label ") + name, scales, trend, classes);

	view.append(parts, listView(starts, "Its starts"));
	return view;
}

// --------------------------------------------------------------- checkpoints

const DAYS = [1, 7, 30, 90];
const KINDS = new Map([["ckpt.load", "load"], ["ckpt.save", "save"]]);
const WAITS = new Map([["queue", "c6"], ["storage", "c0"], ["network", "c7"]]); // with its colour
const SLOW_BARS = 20; // nodes that are drawn
const CHART_MOST = 500; // rounds that are drawn

// What requests to the store waited for most.
function mostWait(c) {
	const of = (w) => c[w + "_s"];
	const all = [...WAITS.keys()];
	const sum = all.reduce((n, w) => n + of(w), 0);
	const most = all.reduce((a, b) => (of(b) > of(a) ? b : a));

	return sum > 0 ? most + " " + share(of(most), sum) : "";
}

// The slowest node of each start, where it was slow, and how often.
function oftenSlowest(rows) {
	const of = new Map();

	for (const r of rows.filter((c) => c.nodes > 2 && c.stragglers)) {
		const n = of.get(r.slowest) || { node: r.slowest, load: 0, save: 0, worst: 0 };

		n[KINDS.get(r.stage)]++;
		n.worst = Math.max(n.worst, r.max_median);
		of.set(r.slowest, n);
	}
	return [...of.values()].sort((a, b) => b.load + b.save - a.load - a.save || b.worst - a.worst);
}

// Programs may not say how much they load and save.
function bytesOf(c) {
	return c.bytes ? size(c.bytes) : "";
}

function rateOf(c) {
	return c.bytes ? size(c.rate) + "/s" : "";
}

function kindFacts(rows, stage, name) {
	const own = rows.filter((c) => c.stage === stage);
	const sum = (get) => own.reduce((n, c) => n + get(c), 0);
	const bytes = sum((c) => c.bytes), took = sum((c) => c.job_s);

	return own.length ? [[name, String(sum((c) => c.rounds)) + " of " + own.length +
		(own.length === 1 ? " start" : " starts")],
	...(bytes && took ? [[name + ", bytes", size(bytes)], [name + ", rate", size(bytes / took) + "/s"]] : [])] : [];
}

function checkpointsView(found, title, days) {
	const view = make("section");
	const rows = found.checkpoints;
	const often = oftenSlowest(rows);

	view.append(rows.length ? headOf(title, view) : make("h2", title));
	if (days) {
		const line = view.appendChild(make("p", "Days ", "days"));

		for (const d of DAYS) {
			const a = line.appendChild(link(String(d), "checkpoints/days/" + d));

			markCurrent(a, d === days);
			a.setAttribute("aria-label", d === 1 ? "1 day" : d + " days");
		}
	}
	if (!rows.length) {
		view.append(nothing("No start loaded or saved a checkpoint then, or only in the last minutes. Mounts of jobs report:",
			"BOOTSEER_JOB=NAME bootseer ckpt mount"));
		return view;
	}
	view.append(factsOf([...kindFacts(rows, "ckpt.load", "Loads"),
		...kindFacts(rows, "ckpt.save", "Saves")]), table([
		["Job", (c) => link(c.job + (c.attempt ? ", attempt " + c.attempt : ""), "checkpoints/" + c.id)],
		["What", (c) => KINDS.get(c.stage)],
		["Last", (c) => ago(c.last * 1000)],
		["Times", (c) => String(c.rounds), true],
		["Nodes", (c) => String(c.nodes), true],
		["Bytes", bytesOf, true, true],
		["Took", (c) => seconds(c.job_s), true],
		["Rate", rateOf, true, true],
		["Max/Median", (c) => make("span", c.max_median ? c.max_median.toFixed(2) : "-", c.stragglers ? "slow" : ""), true],
		["Slowest node", (c) => nodeLink(c.slowest, c.stragglers)],
		["Waited", (c) => share(c.wait_s, c.run_s), true],
		["Most for", mostWait, false, true],
	], rows));
	if (often.length)
		part(view, "Nodes that were slow, the most often first", firstRows([
			["Node", (n) => nodeLink(n.node, true)],
			["Slowest in loads of", (n) => String(n.load), true],
			["In saves of", (n) => String(n.save), true],
			["Max/Median at worst", (n) => n.worst.toFixed(2), true],
		], often));
	return view;
}

// Rounds as columns, one after the other: up to the slowest node, and in it the median.
function roundsChart(rounds, colour) {
	const shown = rounds.slice(-CHART_MOST);
	const slow = theme("line");

	return [legend([["median node", colour], ["slowest node", slow]]), barChart("Each time", shown.map((r) => when(r.begin_ms)), [
		{ colour, data: shown.map((r) => r.median_s), order: 1, texts: shown.map((r) => when(r.begin_ms) +
			": median node " + seconds(r.median_s) + ", slowest " + r.slowest + " " + seconds(r.max_s)) },
		{ colour: slow, data: shown.map((r) => r.max_s), order: 2 }], { say: seconds })];
}

function waitsBar(c) {
	const sum = [...WAITS.keys()].reduce((n, w) => n + c[w + "_s"], 0);
	const of = [...WAITS].map(([w, colour]) => [w + " " + share(c[w + "_s"], sum), c[w + "_s"], theme(colour)]);
	const said = of.map((w) => w[0]).join(", ");

	return [make("h3", "What requests to the store waited for: " + said), legend(of.map(([w, , colour]) => [w, colour])),
		partsChart("What requests waited for", [["all requests", of]], sum < 7200 ? seconds : (s) => hours(s / 3600))];
}

// The slowest nodes as bars, with a mark where the median node is.
function slowBars(c, colour) {
	const nodes = c.nodes.slice(0, SLOW_BARS);

	return barChart("Slowest nodes", nodes.map((n) => n.node), [
		{ colour, data: nodes.map((n) => n.duration_s), wide: 12, order: 2, texts: nodes.map((n) => n.node + ": " +
			seconds(n.duration_s) + ", median node " + seconds(c.node.median_s)) },
		{ colour: theme("text"), data: nodes.map(() => [c.node.median_s, c.node.median_s]), wide: 16, least: 3, order: 1 },
	], { across: true, say: seconds });
}

function kindPart(view, c) {
	const what = KINDS.get(c.stage);
	const colour = theme(what === "load" ? "c0" : "c2");
	const facts = [
		...(c.bytes ? [["Bytes", size(c.bytes)], ["Rate", size(c.rate) + "/s"]] : []),
		["Times", String(c.rounds_all)],
		["Took, in all", seconds(c.job_s)],
		["Nodes", String(c.nodes_all)],
		["Median node", seconds(c.node.median_s)],
		["Slowest node", seconds(c.node.max_s)],
		["Max/Median", c.node.max_median.toFixed(2)],
		["Programs waited", share(c.wait_s, c.run_s)],
		["Stragglers", make("span", String(c.stragglers), c.stragglers ? "slow" : "")],
	];
	const less = (all, shown, name) => (all > shown.length ? " (" + shown.length + " of " + all + " " + name + ")" : "");

	if (c.open)
		facts.push(["No end", make("span", String(c.open), "slow")]);
	part(view, what === "load" ? "Loads" : "Saves", factsOf(facts));
	if (c.queue_s + c.storage_s + c.network_s > 0)
		view.append(...waitsBar(c));
	view.append(make("h3", "Nodes, the slowest first; the mark is the median node's" + less(c.nodes_all, c.nodes, "nodes")),
		slowBars(c, colour), firstRows([
			["Node", (n) => nodeLink(n.node, n.straggler)],
			["Took", (n) => seconds(n.duration_s), true],
			["By the median", (n) => (c.node.median_s ? (n.duration_s / c.node.median_s).toFixed(2) : "-"), true],
			["Bytes", bytesOf, true, true],
			["Rate", rateOf, true, true],
			["Times", (n) => String(n.runs), true],
			["Waited", (n) => share(n.wait_s, n.run_s), true],
			...[...WAITS.keys()].map((w) => [w[0].toUpperCase() + w.slice(1),
				(n) => (n[w + "_s"] ? seconds(n[w + "_s"]) : ""), true, true]),
			["No end", (n) => String(n.open || ""), true, true],
		], c.nodes));
	view.append(make("h3", "Each time" + less(c.rounds_all, c.rounds, "times")),
		...(c.rounds.length > 1 ? roundsChart(c.rounds, colour) : []), firstRows([
			["Began", (r) => moment(r.begin_ms)],
			["Took", (r) => seconds(r.job_s), true],
			["Nodes", (r) => String(r.nodes), true],
			["Bytes", bytesOf, true, true],
			["Rate", rateOf, true, true],
			["Median node", (r) => seconds(r.median_s), true],
			["Max/Median", (r) => r.max_median.toFixed(2), true],
			["Slowest node", (r) => nodeLink(r.slowest)],
			["Its time", (r) => seconds(r.max_s), true],
			["Waited", (r) => share(r.wait_s, r.run_s), true],
			["Most for", mostWait, false, true],
			["No end", (r) => String(r.open || ""), true, true],
		], c.rounds.slice().reverse()));
}

function checkpointView(found) {
	const view = make("section");
	const links = make("p", undefined, "links");

	view.append(make("h2", "Checkpoints of " + found.job + ", attempt " + found.attempt), links);
	links.append(moment(found.begin_ms), " ", link("its start", "start/" + found.id), " ",
		link("checkpoints of this job", "checkpoints/job/" + found.job));
	if (!found.checkpoints.length)
		view.append(nothing("No node said that it loaded or saved a checkpoint. Mounts of jobs report:",
			"BOOTSEER_JOB=NAME bootseer ckpt mount"));
	if (found.left_out)
		view.append(make("p", found.left_out + " events are left out: there are too many."));
	for (const c of found.checkpoints)
		kindPart(view, c);
	return view;
}

async function daysView(days) {
	return checkpointsView(await ask("/v1/checkpoints?limit=1000&days=" + days),
		days === 1 ? "Checkpoints of a day" : "Checkpoints of " + days + " days", days);
}

// --------------------------------------------------------------------- views

const views = [
	[/^#start\/([0-9]{1,18})$/, async (id) => {
		const [start, bars] = await Promise.all([
			ask("/v1/starts/" + id + "?limit=1"), ask("/v1/starts/" + id + "/bars")]);

		if (start.state === "open")
			setTimeout(() => location.hash === "#start/" + id && show(), LIVE_MS);
		return startView(start, bars);
	}],
	[/^#compare\/([0-9]{1,18})\/([0-9]{1,18})$/, async (a, b) =>
		compareView(await ask("/v1/starts/" + a + "/compare?with=" + b))],
	[/^#job\/([A-Za-z0-9._:/@+-]{1,128})$/, async (job) =>
		jobView(await ask("/v1/starts?limit=200&job=" + encodeURIComponent(job)), job)],
	[/^#(image|label)\/([A-Za-z0-9._:/@+-]{1,255})$/, groupView],
	[/^#node\/([A-Za-z0-9._-]{1,255})$/, async (node) => nodeView(...await Promise.all(
		[ask("/v1/nodes/" + node), askDoctor("node=" + node)]))],
	[/^#nodes$/, async () => nodesView(...await Promise.all(
		[ask("/v1/nodes"), askDoctor("limit=1000")]))],
	[/^#swarm\/(sha256:[0-9a-f]{64})$/, async (d) => swarmView(await ask("/v1/swarms/" + d), d)],
	[/^#checkpoints\/([0-9]{1,18})$/, async (id) =>
		checkpointView(await ask("/v1/starts/" + id + "/checkpoints?limit=1000"))],
	[/^#checkpoints\/days\/([0-9]{1,3})$/, async (days) => daysView(Number(days))],
	[/^#checkpoints\/job\/([A-Za-z0-9._:/@+-]{1,128})$/, async (job) => checkpointsView(
		await ask("/v1/checkpoints?limit=1000&days=400&job=" + encodeURIComponent(job)),
		"Checkpoints of " + job)],
	[/^#checkpoints$/, async () => daysView(30)],
	[/^#peers$/, async () => peersView(7)],
	[/^#peers\/days\/([0-9]{1,3})$/, async (days) => peersView(Number(days))],
	[/^#peers\/start\/([0-9]{1,18})$/, async (id) =>
		startPeersView(await ask("/v1/starts/" + id + "/peers?limit=1000"))],
	[/^#conversions$/, async () => conversionsView(await ask("/v1/conversions?limit=1000"))],
	[/^#operations$/, operationsViewNow],
	[/^#images$/, async () => imagesView(await ask("/v1/images?limit=1000"))],
	[/^#hot\//, async () => {
		// As it is: both names are in the address as a query has them.
		const m = /^#hot\/(sha256:[0-9a-f]{64})\/([^/?&#]*)\/([^/?&#]*)$/.exec(location.hash);

		if (!m)
			throw new Error("there is no such view");
		return hotView(await ask("/v1/images/" + m[1] + "?limit=1000&repo=" + m[2] + "&workload=" + m[3]));
	}],
	[/^#trends$/, async () => trendView("Trends of 90 days", ...await Promise.all(
		["scales?class=full&", "trends?class=full&by=day&", "trends?by=class&",
			"trends?class=full&by=image&", "trends?class=full&by=label&"].map((what) =>
			ask("/v1/" + what + "days=90"))))],
	[/^/, startsView],
];

// Where in the menu a view belongs.
const SECTIONS = [
	[/^#(image|label|trends)(\/|$)/, "#trends"],
	[/^#(hot|images)(\/|$)/, "#images"],
	[/^#conversions$/, "#conversions"],
	[/^#nodes?(\/|$)/, "#nodes"],
	[/^#checkpoints(\/|$)/, "#checkpoints"],
	[/^#(peers|swarm)(\/|$)/, "#peers"],
	[/^#operations(\/|$)/, "#operations"],
	[/^/, "#"],
];

function sectionOf(hash) {
	return SECTIONS.find(([p]) => p.test(hash))[1];
}

// The address as a text; what cannot be one, as #%, has a view that says that there is none.
function hashText() {
	try {
		return decodeURI(location.hash);
	} catch {
		return "#hot/";
	}
}

// Put a view in the place of what is shown.  Where that is the same view of some seconds ago, as of
// a start that is live, it stays as it was unfolded, scrolled and focused.
function replaceView(made, isSame) {
	const of = (view) => ["details", ".bars", ".wide"].map((what) => [...view.querySelectorAll(what)]);
	const places = isSame ? of(main).map((boxes) => boxes.map((e) =>
		({ open: e.open, top: e.scrollTop, left: e.scrollLeft, focused: e.contains(document.activeElement) }))) : [];

	clearCharts();
	main.replaceChildren(made);
	of(made).forEach((boxes, kind) => boxes.forEach((e, i) => {
		const was = places[kind] && places[kind][i];

		if (!was)
			return;
		e.open = was.open;
		e.scrollTop = was.top;
		e.scrollLeft = was.left;
		if (was.focused)
			(e.querySelector("summary") || e).focus({ preventScroll: true });
	}));
}

async function show() {
	const mine = ++turn;
	const hash = hashText();

	for (const a of document.querySelectorAll("nav a")) {
		const href = a.getAttribute("href");

		markCurrent(a, href === sectionOf(hash), href === (hash || "#") ? "page" : "true");
	}
	main.setAttribute("aria-busy", "true");
	try {
		const [pattern, view] = views.find(([p]) => p.test(hash));
		const made = await view(...pattern.exec(hash).slice(1));

		if (mine !== turn)
			return;
		message.textContent = "";
		replaceView(made, document.body.dataset.view === (hash || "#"));
		document.title = made.querySelector("h2").textContent + " - BootSeer";
		document.body.dataset.view = hash || "#";
	} catch (e) {
		if (mine !== turn)
			return;
		main.replaceChildren();
		message.textContent = e.message;
	}
	main.removeAttribute("aria-busy");
}

login.addEventListener("submit", (e) => {
	e.preventDefault();
	sessionStorage.setItem("token", token.value);
	token.value = "";
	show();
});
window.addEventListener("hashchange", show);
narrow.addEventListener("change", show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
window.addEventListener("keydown", (e) => {
	const search = document.getElementById("search");

	if (e.key === "/" && search && e.target.tagName !== "INPUT") {
		e.preventDefault();
		search.focus();
	}
});
show();
