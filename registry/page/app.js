// SPDX-License-Identifier: Apache-2.0
// Starts of jobs, and one start as bars of its nodes.  Everything that the service
// says is text, never markup: textContent and attributes only.
"use strict";

const COLOURS = 10;
const SVG = "http://www.w3.org/2000/svg";
const main = document.getElementById("main");
const message = document.getElementById("message");
const token = document.getElementById("token");
let turn = 0; // of the newest view: what an older one asked for is not shown

function make(tag, text, name) {
	const e = document.createElement(tag);

	if (text !== undefined)
		e.textContent = text;
	if (name)
		e.className = name;
	return e;
}

function draw(tag, attributes) {
	const e = document.createElementNS(SVG, tag);

	for (const [key, value] of Object.entries(attributes))
		e.setAttribute(key, value);
	return e;
}

function seconds(s) {
	return s.toFixed(1) + " s";
}

function when(ms) {
	return new Date(ms).toISOString().replace("T", " ").slice(0, 19) + "Z";
}

async function ask(path) {
	const headers = {};
	const kept = sessionStorage.getItem("token");

	if (kept)
		headers.Authorization = "Bearer " + kept;
	const answer = await fetch(path, { headers, cache: "no-store" });
	const body = await answer.json();

	if (!answer.ok)
		throw new Error(body.error ? body.error.message : String(answer.status));
	return body;
}

// columns: [title, of a row: text or element, is it a number]
function table(columns, rows) {
	const box = make("div", undefined, "wide");
	const t = box.appendChild(make("table"));
	const head = t.appendChild(make("thead")).appendChild(make("tr"));
	const body = t.appendChild(make("tbody"));

	for (const [title, , number] of columns) {
		const th = head.appendChild(make("th", title, number ? "number" : ""));

		th.scope = "col";
	}
	for (const row of rows) {
		const tr = body.appendChild(make("tr"));

		for (const [, get, number] of columns) {
			const td = tr.appendChild(make("td", undefined, number ? "number" : ""));

			td.append(get(row));
		}
	}
	return box;
}

function link(text, hash) {
	const a = make("a", text);

	a.href = "#" + hash;
	return a;
}

// ---------------------------------------------------------------------- list

function listView(found) {
	const view = make("section");

	view.append(make("h2", "Starts"));
	view.append(table([
		["Job", (s) => link(s.job, "start/" + s.id)],
		["Attempt", (s) => String(s.attempt), true],
		["Begin", (s) => when(s.begin_ms)],
		["Duration", (s) => seconds(s.duration_s), true],
		["Training began", (s) => (s.ready ? "yes" : "no")],
		["Events", (s) => String(s.events), true],
	], found.starts));
	if (!found.starts.length)
		view.append(make("p", "No start is known yet: bootseer stage send."));
	return view;
}

// --------------------------------------------------------------------- start

function colours(start) {
	const map = new Map();

	for (const s of start.stages)
		if (s.top)
			map.set(s.stage, "c" + (map.size % COLOURS));
	return map;
}

function legend(map) {
	const list = make("ul", undefined, "legend");

	for (const [stage, colour] of map) {
		const item = list.appendChild(make("li"));
		const box = item.appendChild(draw("svg", { viewBox: "0 0 1 1", "aria-hidden": "true" }));

		box.append(draw("rect", { width: 1, height: 1, class: colour }));
		item.append(stage);
	}
	return list;
}

function bars(start, node, map) {
	const whole = start.duration_s || 1;
	const svg = draw("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img" });
	const said = [];

	for (const run of node.runs) {
		if (!run.top)
			continue;
		const text = run.stage + ", " + (run.open ? "no end" : seconds(run.duration_s)) +
			", at " + seconds(run.at_s);
		const rect = svg.appendChild(draw("rect", {
			x: 1000 * run.at_s / whole,
			width: Math.max(1, 1000 * run.duration_s / whole),
			height: 10,
			class: run.open ? "open" : map.get(run.stage) || "c9",
		}));

		rect.appendChild(draw("title", {})).textContent = text;
		said.push(text);
	}
	svg.setAttribute("aria-label", node.node + ": " + said.join("; "));
	return svg;
}

function gantt(start) {
	const map = colours(start);
	const view = make("section");
	const grid = make("div", undefined, "gantt");

	view.append(make("h2", "Nodes, the slowest first: " + start.nodes.length + " of " +
		start.nodes_all));
	view.append(legend(map));
	for (const node of start.nodes) {
		const name = make("span", node.node, node.straggler ? "name slow" : "name");

		name.title = node.node;
		grid.append(name, make("span", seconds(node.busy_s), "number"),
			bars(start, node, map));
	}
	view.append(grid);
	return view;
}

function stagesTable(start) {
	return table([
		["Stage", (s) => s.stage],
		["Nodes", (s) => String(s.node.nodes), true],
		["Median", (s) => seconds(s.node.median_s), true],
		["P95", (s) => seconds(s.node.p95_s), true],
		["Max", (s) => seconds(s.node.max_s), true],
		["Max/Median", (s) => s.node.max_median.toFixed(2), true],
		["Job", (s) => seconds(s.job_s), true],
		["Retries", (s) => String(s.retries), true],
		["No end", (s) => String(s.open), true],
		["Stragglers", (s) => make("span", String(s.stragglers), s.stragglers ? "slow" : ""), true],
	], start.stages);
}

function startView(start) {
	const view = make("section");
	const n = start.node_level;

	view.append(make("h2", start.job + ", attempt " + start.attempt));
	view.append(make("p", when(start.begin_ms) + ", " + seconds(start.duration_s) +
		(start.ready ? " until training began" : " so far") + "; " + start.nodes_all +
		" nodes, median " + seconds(n.median_s) + ", slowest " + seconds(n.max_s) +
		", Max/Median " + n.max_median.toFixed(2)));
	view.append(stagesTable(start));
	if (start.stragglers.length) {
		view.append(make("h2", "Stragglers"));
		view.append(table([
			["Node", (s) => make("span", s.node, "slow")],
			["Stage", (s) => s.stage],
			["Took", (s) => seconds(s.duration_s), true],
			["More than the median", (s) => seconds(s.excess_s), true],
			["Attempts", (s) => String(s.attempts), true],
		], start.stragglers));
	}
	view.append(make("h2", "Critical path"));
	view.append(table([
		["Node", (s) => s.node],
		["Stage", (s) => s.stage],
		["At", (s) => seconds(s.at_s), true],
		["Took", (s) => seconds(s.duration_s), true],
		["After a gap of", (s) => seconds(s.gap_s), true],
	], start.critical_path));
	view.append(gantt(start));
	return view;
}

// --------------------------------------------------------------------- views

async function show() {
	const mine = ++turn;
	const one = /^#start\/([0-9]{1,18})$/.exec(location.hash);

	try {
		const view = one ? startView(await ask("/v1/starts/" + one[1] + "?limit=1000"))
			: listView(await ask("/v1/starts?limit=200"));

		if (mine !== turn)
			return;
		message.textContent = "";
		main.replaceChildren(view);
	} catch (e) {
		if (mine !== turn)
			return;
		main.replaceChildren();
		message.textContent = e.message;
	}
}

document.getElementById("login").addEventListener("submit", (e) => {
	e.preventDefault();
	sessionStorage.setItem("token", token.value);
	token.value = "";
	show();
});
window.addEventListener("hashchange", show);
show();
