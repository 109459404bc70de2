// SPDX-License-Identifier: Apache-2.0
// Views of images and of peers; app.js, which comes after it, has what all views share.
"use strict";

const MATRIX_MOST = 30; // nodes of a side that are drawn
const TIME_COLUMNS = 40; // steps of a hot set's growth, as the service has them

function ms(n) {
	return n ? seconds(n / 1000) : "-";
}

function hotLink(i, text) {
	return link(text, "hot/" + i.image + "/" + encodeURIComponent(i.repo) + "/" +
		encodeURIComponent(i.workload));
}

function shortDigest(d) {
	return d.slice(0, 19);
}

// HOST/REPOSITORY of an image's name.
function repoOf(name) {
	const repo = name.split("@")[0];

	return repo.replace(/:[^/]*$/, "");
}

// -------------------------------------------------------------------- images

const IMAGE_COLUMNS = [
	["Image", (i) => hotLink(i, i.name || (i.repo ? i.repo + "@" : "") + shortDigest(i.image))],
	["Workload", (i) => i.workload],
	["Nodes", (i) => String(i.nodes), true],
	["Starts", (i) => String(i.starts), true],
	["From peers", (i) => size(i.peer_bytes), true],
	["From the registry", (i) => size(i.origin_bytes), true],
	["Last", (i) => when(i.received_at * 1000)],
];

function imagesView(found) {
	const view = make("section");

	view.append(make("h2", "Images that nodes started"));
	if (!found.images.length) {
		view.append(make("p", "No node said how a start of an image went: bootseerd --service."));
		return view;
	}
	view.append(searchOf(view), table(IMAGE_COLUMNS, found.images));
	return view;
}

// What is known of an image that starts name; of others of its repository, too.  The rest of
// the view does without it.
async function imageParts(name) {
	try {
		const repo = repoOf(name);

		return imageBox(name, repo ? await ask("/v1/images?limit=1000&repo=" + encodeURIComponent(repo))
			: { images: [] });
	} catch (e) {
		return make("p", "What is known of the image cannot be had now: " + e.message);
	}
}

function imageBox(name, found) {
	const own = found.images.filter((i) => i.name === name);
	const others = found.images.filter((i) => i.name !== name);
	const box = make("div");

	box.append(make("h2", "What its starts read, missed and had prefetched"));
	if (own.length)
		box.append(table(IMAGE_COLUMNS, own));
	else
		box.append(make("p", "No node said how a start of it went: bootseerd --service."));
	if (others.length)
		box.append(make("h3", "Other images of the repository"), firstRows(IMAGE_COLUMNS, others));
	return box;
}

// How much of the hot set is read until when: columns that grow.
function growth(hot) {
	const svg = draw("svg", { viewBox: "0 0 1000 200", preserveAspectRatio: "none", role: "img", class: "columns" });
	const ends = make("p", undefined, "ends");
	const half = hot.stored_by_time.findIndex((n) => n >= hot.stored / 2);
	const at = (i) => hot.last_ms * (i + 1) / TIME_COLUMNS;

	svg.setAttribute("aria-label", "Half of the hot set is read within " + ms(at(half)) +
		", all of it within " + ms(hot.last_ms));
	hot.stored_by_time.forEach((n, i) => {
		const h = 195 * n / (hot.stored || 1);
		const rect = svg.appendChild(draw("rect", { x: i * 25 + 1, y: 200 - h, width: 23, height: h, class: "c0" }));

		rect.appendChild(draw("title", {})).textContent = "until " + ms(at(i)) + ": " + size(n);
	});
	ends.append(make("span", "0"), make("span", "half within " + ms(at(half))), make("span", ms(hot.last_ms)));
	return [make("h3", "Stored bytes that are read, by the time of the start"), svg, ends];
}

function hotPart(view, hot) {
	part(view, "Hot set: what half of the recorded starts read", factsOf([
		["Stored", size(hot.stored)],
		["Blocks", String(hot.blocks)],
		["Files", String(hot.files_all)],
		["Of these files", size(hot.bytes)],
		["Recordings", String(hot.runs)],
		["Ready after", ms(hot.ready_ms)],
		["Read by few starts", size(hot.rare_stored)],
	]));
	if (hot.truncated)
		view.append(make("p", "The recording reached a limit: its tail is missing."));
	if (hot.stored)
		view.append(...growth(hot));
	view.append(make("h3", "Files, the largest part of the hot set first"), firstRows([
		["File", (f) => make("span", f.path, "path")],
		["Stored", (f) => size(f.stored), true],
		["Share", (f) => share(f.stored, hot.stored), true],
		["Read", (f) => size(f.bytes), true],
		["Blocks", (f) => String(f.blocks), true],
		["First read at", (f) => ms(f.first_ms) === "-" ? "0.0 s" : ms(f.first_ms), true],
		["In starts", (f) => (f.confidence / 10).toFixed(0) + " %", true],
	], hot.files));
}

// One bar of parts, each with its share.
function sharesBar(name, parts) {
	const sum = parts.reduce((n, p) => n + p[1], 0);
	const grid = make("div", undefined, "gantt");
	const svg = draw("svg", { viewBox: "0 0 1000 14", preserveAspectRatio: "none", role: "img" });
	let at = 0;

	for (const [what, n, colour] of parts) {
		const wide = sum ? 1000 * n / sum : 0;
		const rect = svg.appendChild(draw("rect", { x: at, width: wide, height: 14, class: colour }));

		rect.appendChild(draw("title", {})).textContent = what + " " + size(n);
		at += wide;
	}
	svg.setAttribute("aria-label", name + ": " + parts.map((p) => p[0] + " " + size(p[1])).join(", "));
	grid.append(make("span", name, "name"), make("span", size(sum), "number"), svg);
	return [legend(new Map(parts.map((p) => [p[0] + " " + share(p[1], sum), p[2]]))), grid];
}

function prefetchPart(view, sum) {
	const traces = Object.entries(sum.traces).filter(([, n]) => n).map(([k, n]) => n + " " + k).join(", ");

	part(view, "Starts: what was prefetched, and missed", factsOf([
		["Starts", String(sum.starts)],
		["Got ready", String(sum.ready)],
		["Ready after, median", ms(sum.ready_median_ms)],
		["Waited for the hot set", ms(sum.waited_median_ms)],
		["Traces", traces || "-"],
		["Missed, of what was read", share(sum.missed_blocks, sum.read_blocks)],
		["Missed", size(sum.missed_bytes)],
		["Prefetched and not read", share(sum.hot.unused_bytes, sum.hot.used_bytes + sum.hot.unused_bytes)],
	]));
	if (sum.hot.used_bytes + sum.hot.unused_bytes)
		view.append(...sharesBar("hot set", [["read", sum.hot.used_bytes, "c2"],
			["not read", sum.hot.unused_bytes, "c6"]]));
	view.append(...sharesBar("fetched for", [["readers", sum.fetched.demand, "c1"],
		["the hot set", sum.fetched.hot, "c2"], ["the rest", sum.fetched.cold, "c4"]]));
}

function hotView(found) {
	const view = make("section");
	const name = found.name || found.repo + "@" + shortDigest(found.image);
	const links = make("p");

	view.append(make("h2", name + ", workload " + found.workload), make("p", found.image, "digest"), links);
	if (found.name)
		links.append(link("starts of jobs with this image", "image/" + found.name));
	if (found.sum.starts)
		prefetchPart(view, found.sum);
	if (found.missed_files.length)
		part(view, "Files that readers waited for, most bytes first", firstRows([
			["File", (f) => make("span", f.path, "path")],
			["Missed", (f) => size(f.bytes), true],
			["In starts", (f) => String(f.starts), true],
		], found.missed_files));
	if (found.hot)
		hotPart(view, found.hot);
	else
		part(view, "Hot set", make("p", "Nobody recorded a start of it, or the recording is gone."));
	if (found.starts.length)
		part(view, "Starts, the last one first", firstRows([
			["Node", (s) => nodeLink(s.node)],
			["Job", (s) => (s.job ? link(s.job, "job/" + s.job) : "")],
			["Heard of", (s) => when(s.received_at * 1000)],
			["End", (s) => s.end],
			["Ready after", (s) => ms(s.ready_ms), true],
			["Waited", (s) => ms(s.waited_ms), true],
			["Trace", (s) => s.trace],
			["Read", (s) => size(s.read_bytes), true],
			["Missed", (s) => make("span", size(s.missed_bytes), s.missed_bytes ? "slow" : ""), true],
			["Not used", (s) => size(s.hot.unused_bytes), true],
			["From peers", (s) => size(s.peer_bytes), true],
			["From the registry", (s) => size(s.origin_bytes), true],
		], found.starts));
	return view;
}

// --------------------------------------------------------------------- peers

const PEER_DAYS = [1, 7, 30];
const NAMES = 110; // room for them beside a matrix and above it

// Givers as rows, takers as columns: of those that gave and got most.
function matrix(pairs) {
	const sums = (k) => {
		const of = new Map();

		for (const p of pairs)
			of.set(p[k], (of.get(p[k]) || 0) + p[2]);
		return [...of].sort((a, b) => b[1] - a[1]).slice(0, MATRIX_MOST).map((e) => e[0]);
	};
	const givers = sums(0), takers = sums(1);
	const row = new Map(givers.map((n, i) => [n, i])), column = new Map(takers.map((n, i) => [n, i]));
	const most = Math.max(...pairs.map((p) => p[2]), 1);
	const svg = draw("svg", { viewBox: "0 0 " + (takers.length * 20 + NAMES) + " " + (givers.length * 20 + NAMES),
		role: "img", class: "matrix" });
	const box = make("div", undefined, "wide");
	const name = (text, at) => {
		// Names of nodes mostly differ at their ends.
		svg.appendChild(draw("text", at)).textContent = text.length > 16 ? "\u2026" + text.slice(-15) : text;
	};

	box.tabIndex = 0;
	box.setAttribute("role", "group");
	box.setAttribute("aria-label", "Who gave whom how much");
	svg.setAttribute("aria-label", givers.length + " nodes that gave most as rows, " + takers.length +
		" that had most as columns; the table has the figures");
	givers.forEach((n, i) => name(n, { x: NAMES - 6, y: NAMES + i * 20 + 14, "text-anchor": "end" }));
	takers.forEach((n, i) => name(n, { x: 0, y: 0, transform: "translate(" + (NAMES + i * 20 + 14) + " " +
		(NAMES - 6) + ") rotate(-90)" }));
	for (const [giver, taker, bytes] of pairs) {
		if (!row.has(giver) || !column.has(taker))
			continue;
		const rect = svg.appendChild(draw("rect", { x: NAMES + column.get(taker) * 20 + 1,
			y: NAMES + row.get(giver) * 20 + 1, width: 18, height: 18, class: "c0",
			"fill-opacity": (0.15 + 0.85 * bytes / most).toFixed(2) }));

		rect.appendChild(draw("title", {})).textContent = giver + " to " + taker + ": " + size(bytes);
	}
	box.append(svg);
	return box;
}

function flowParts(view, flow) {
	const nodes = flow.nodes.map(([node, got, origin, gave, givers, takers]) =>
		({ node, got, origin, gave, givers, takers }));
	const most = Math.max(...nodes.map((n) => Math.max(n.gave, n.got + n.origin)), 1);
	const grid = make("div", undefined, "gantt");

	view.append(factsOf([
		["Nodes", String(flow.nodes_all)],
		["From peers", size(flow.peer_bytes)],
		["From registries", size(flow.origin_bytes)],
		["Share of peers", share(flow.peer_bytes, flow.peer_bytes + flow.origin_bytes)],
		["Reports", String(flow.reports)],
	]));
	if (flow.left_out)
		view.append(make("p", flow.left_out + " figures are left out: there are too many."));
	for (const n of nodes.slice(0, 20)) {
		const svg = draw("svg", { viewBox: "0 0 1000 14", preserveAspectRatio: "none", "aria-hidden": "true" });
		const name = make("span", undefined, "name");

		name.append(nodeLink(n.node));
		svg.append(draw("rect", { y: 0, width: 1000 * n.gave / most, height: 5, class: "c0" }),
			draw("rect", { y: 6, width: 1000 * n.got / most, height: 8, class: "c2" }),
			draw("rect", { x: 1000 * n.got / most, y: 6, width: 1000 * n.origin / most, height: 8, class: "c6" }));
		grid.append(name, make("span", size(n.gave), "number"), svg);
	}
	view.append(make("h3", "Nodes, those that gave most first"),
		legend(new Map([["gave", "c0"], ["had from peers", "c2"], ["had from the registry", "c6"]])), grid);
	view.append(firstRows([
		["Node", (n) => nodeLink(n.node)],
		["Gave", (n) => size(n.gave), true],
		["To nodes", (n) => String(n.takers), true],
		["Had from peers", (n) => size(n.got), true],
		["From nodes", (n) => String(n.givers), true],
		["Had from the registry", (n) => size(n.origin), true],
		["Share of peers", (n) => share(n.got, n.got + n.origin), true],
	], nodes));
	if (!flow.pairs.length)
		return;
	part(view, "Who gave whom, the most first" + (flow.pairs_all > flow.pairs.length
		? " (" + flow.pairs.length + " of " + flow.pairs_all + " pairs)" : ""),
	make("p", "Rows gave, columns had; the stronger the colour, the more."), matrix(flow.pairs), firstRows([
		["Gave", (p) => nodeLink(p[0])],
		["To", (p) => nodeLink(p[1])],
		["Bytes", (p) => size(p[2]), true],
	], flow.pairs));
}

async function peersView(days) {
	const [flow, swarms] = await Promise.all([
		ask("/v1/peers?limit=1000&days=" + days), ask("/v1/swarms")]);
	const view = make("section");
	const line = make("p", "Days ", "days");

	view.append(make("h2", "Who gave whom blocks of images"), line);
	for (const d of PEER_DAYS) {
		const a = line.appendChild(link(String(d), "peers/days/" + d));

		markCurrent(a, d === days);
		a.setAttribute("aria-label", d === 1 ? "1 day" : d + " days");
	}
	if (flow.reports)
		flowParts(view, flow);
	else
		view.append(make("p", "No node said then how a start of an image went: bootseerd --service."));
	swarmsPart(view, swarms);
	return view;
}

function swarmsPart(view, found) {
	if (!found.swarms.length) {
		part(view, "Images that nodes share now", make("p", "Nobody shares an image now."));
		return;
	}
	part(view, "Images that nodes share now", table([
		["Image's swarm", (s) => link(s.image, "swarm/" + s.image)],
		["Nodes", (s) => String(s.members), true],
		["Complete", (s) => String(s.complete), true],
		["Pieces", (s) => String(s.pieces), true],
		["Read from the origin", (s) => String(s.read), true],
		["Leased now", (s) => String(s.leases), true],
	], found.swarms));
}

function swarmView(found, name) {
	const view = make("section");

	view.append(make("h2", "Nodes that share an image"), make("p", name, "digest"));
	view.append(table([
		["Node", (m) => nodeLink(m.node)],
		["Rack", (m) => m.rack],
		["Zone", (m) => m.zone],
		["Pieces that it has", (m) => String(m.have), true],
		["Leased now", (m) => String(m.leases), true],
	], found.nodes));
	return view;
}

function startPeersView(flow) {
	const view = make("section");
	const links = make("p", when(flow.begin_ms) + " ");

	view.append(make("h2", "Peers in " + flow.job + ", attempt " + flow.attempt), links);
	links.append(link("its start", "start/" + flow.id));
	for (const i of flow.images)
		links.append(" ", hotLink(i, (i.repo ? i.repo + "@" : "image ") + shortDigest(i.image) + ", workload " + i.workload));
	if (flow.reports)
		flowParts(view, flow);
	else
		view.append(make("p", "No node said how its image came: bootseerd --service, and a job's name."));
	return view;
}

// -------------------------------------------------- starts by size, nodes by time

const HISTORY_MOST = 100; // starts of a node that are drawn
const HISTOGRAM = 40; // columns
const HISTOGRAM_FROM = 10; // nodes, of fewer a list says more

// Boxes of quartiles in a common scale: [name, spread or null, colour].
function boxRows(rows, say) {
	const grid = make("div", undefined, "gantt");
	const known = rows.filter((r) => r[1]);
	const most = Math.max(...known.map((r) => r[1].max), 0.001);

	for (const [name, s, colour] of known) {
		const x = (v) => 1000 * v / most;
		const svg = draw("svg", { viewBox: "0 0 1000 14", preserveAspectRatio: "none", role: "img" });
		const text = name + ": " + s.n + " of them, least " + say(s.min) + ", half of them " + say(s.p25) +
			" to " + say(s.p75) + ", median " + say(s.median) + ", most " + say(s.max);

		svg.setAttribute("aria-label", text);
		svg.appendChild(draw("title", {})).textContent = text;
		svg.append(
			draw("rect", { x: x(s.min), y: 6, width: Math.max(2, x(s.max - s.min)), height: 2, class: "line" }),
			draw("rect", { x: x(s.p25), y: 1, width: Math.max(3, x(s.p75 - s.p25)), height: 12, class: colour }),
			draw("rect", { x: Math.min(998, x(s.median)), y: 0, width: 2, height: 14, class: "mark" }));
		grid.append(make("span", name, "name"), make("span", say(s.median), "number"), svg);
	}
	return grid;
}

function rangeName(r, unit) {
	const word = unit === "gpus" ? " GPU" : " node";

	if (!r.to)
		return r.from + " and more" + word + "s";
	return (r.from === r.to ? String(r.from) : r.from + " to " + r.to) + word + (r.to > 1 ? "s" : "");
}

function times(n) {
	return n.toFixed(n % 1 ? 2 : 0);
}

function scaleParts(view, found) {
	const of = (name, colour) => found.ranges.map((r) => [rangeName(r, found.unit), r[name], colour]);
	const ranges = found.ranges.filter((r) => r.job_s);
	const stages = found.stages.filter((s) => s.node_s).sort((a, b) => b.node_s.median - a.node_s.median);
	const cell = (spread, say) => (spread ? say(spread.median) : "-");

	if (!found.starts)
		return;
	part(view, "By the size of the job: " + found.starts + (found.starts === 1 ? " start of " : " starts of ") +
		found.jobs + (found.jobs === 1 ? " job" : " jobs"),
	found.starts_of_no_size ? make("p", found.starts_of_no_size + " of them do not say how many GPUs they " +
		"have, and are left out.") : "",
	make("h3", "Until training began: half of the starts in the box"), boxRows(of("job_s", "c0"), seconds),
	make("h3", "The median node's own time"), boxRows(of("node_s", "c2"), seconds),
	make("h3", "Slowest node by the median node"), boxRows(of("max_median", "c1"), times),
	make("h3", "Starts of a job"), boxRows(of("starts_of_job", "c6"), times),
	firstRows([
		["Size", (r) => rangeName(r, found.unit)],
		["Starts", (r) => String(r.job_s.n), true],
		["Jobs", (r) => (r.starts_of_job ? String(r.starts_of_job.n) : "0"), true],
		["Start, median", (r) => cell(r.job_s, seconds), true],
		["Start, longest", (r) => seconds(r.job_s.max), true],
		["Node, median", (r) => cell(r.node_s, seconds), true],
		["Max/Median", (r) => cell(r.max_median, times), true],
		["Starts of a job, most", (r) => (r.starts_of_job ? times(r.starts_of_job.max) : "-"), true],
	], ranges));
	if (stages.length)
		part(view, "Stages of the median node: half of the starts in the box",
			boxRows(stages.slice(0, 20).map((s, i) => [s.stage, s.node_s, "c" + (i % COLOURS)]), seconds));
	const ratios = stages.filter((s) => s.max_median.some(Boolean));

	if (ratios.length)
		part(view, "Slowest node by the median node: stages by the size of the job, medians", table([
			["Stage", (s) => s.stage],
			...found.ranges.map((r, i) => [r, i]).filter(([r]) => r.max_median).map(([r, i]) =>
				[rangeName(r, found.unit), (s) => cell(s.max_median[i], times), true]),
		], ratios));
}

// ------------------------------------------------------------ steps, sides, history

// The critical path as steps, each where it lies in the start.
function steps(start, map) {
	const grid = make("div", undefined, "gantt");
	const whole = start.duration_s || 1;

	for (const s of start.critical_path) {
		const svg = draw("svg", { viewBox: "0 0 1000 14", preserveAspectRatio: "none", "aria-hidden": "true" });

		svg.append(draw("rect", { x: 1000 * s.at_s / whole, y: 1, width: Math.max(2, 1000 * s.duration_s / whole),
			height: 12, class: map.get(s.stage) || "c9" }));
		grid.append(make("span", s.node + " " + s.stage, "name"), make("span", seconds(s.duration_s), "number"), svg);
	}
	return grid;
}

// Stages of two starts, one below the other.
function sides(stages) {
	const grid = make("div", undefined, "gantt");
	const of = (side) => (side ? side.job_s : 0);
	const most = Math.max(...stages.map((s) => Math.max(of(s.a), of(s.b))), 0.001);

	for (const s of stages) {
		const svg = draw("svg", { viewBox: "0 0 1000 14", preserveAspectRatio: "none", role: "img" });

		svg.setAttribute("aria-label", s.stage + ": A " + seconds(of(s.a)) + ", B " + seconds(of(s.b)));
		svg.append(draw("rect", { y: 0, width: 1000 * of(s.a) / most, height: 6, class: "c0" }),
			draw("rect", { y: 8, width: 1000 * of(s.b) / most, height: 6, class: "c6" }));
		grid.append(make("span", s.stage, "name"),
			make("span", (s.change_s > 0 ? "+" : "") + seconds(s.change_s), "number"), svg);
	}
	return [legend(new Map([["A", "c0"], ["B", "c6"]])), grid];
}

// A node's starts as columns, the oldest first, with a mark where the median node was.
function history(starts) {
	const shown = starts.slice(0, HISTORY_MOST).reverse();
	const svg = draw("svg", { viewBox: "0 0 1000 200", preserveAspectRatio: "none", role: "img", class: "columns" });
	const most = Math.max(...shown.map((s) => Math.max(s.busy_s, s.median_s)), 0.001);
	const wide = Math.min(1000 / shown.length, 50);
	const ends = make("p", undefined, "ends");

	svg.setAttribute("aria-label", shown.length + " starts, of which the node was slow in " +
		shown.filter((s) => s.slow).length + "; the table has the figures");
	shown.forEach((s, i) => {
		const column = svg.appendChild(draw("g", {}));

		column.append(draw("rect", { x: i * wide + wide * 0.1, y: 200 - 195 * s.busy_s / most, width: wide * 0.8,
			height: 195 * s.busy_s / most, class: s.slow ? "open" : "c0" }),
		draw("rect", { x: i * wide, y: 199 - 195 * s.median_s / most, width: wide, height: 2, class: "mark" }));
		column.appendChild(draw("title", {})).textContent = when(s.at * 1000) + ", " + s.job + ": " +
			seconds(s.busy_s) + ", median node " + seconds(s.median_s);
	});
	ends.append(make("span", when(shown[0].at * 1000)), make("span", "highest: " + seconds(most)),
		make("span", when(shown[shown.length - 1].at * 1000)));
	return [legend(new Map([["this node", "c0"], ["this node, slow", "open"], ["median node", "mark"]])), svg, ends];
}

// How many nodes took how long for a stage: the one in which the slowest was furthest off.
function histogram(start, bars, map) {
	const far = (s) => s.node.max_s - s.node.median_s;
	const stage = start.stages.filter((s) => s.node.nodes >= HISTOGRAM_FROM).sort((a, b) => far(b) - far(a))[0];
	const index = stage ? bars.stages.indexOf(stage.stage) : -1;
	const took = [], counts = new Array(HISTOGRAM).fill(0);

	if (index < 0 || !stage.node.max_s)
		return [];
	for (const [, , , runs] of bars.nodes) {
		let sum = 0;

		for (let k = 0; k < runs.length; k += 4)
			if (runs[k] === index)
				sum += runs[k + 2] / 1000;
		if (sum)
			took.push(sum);
	}
	const longest = Math.max(...took, 0.001);

	for (const t of took)
		counts[Math.min(HISTOGRAM - 1, Math.floor(HISTOGRAM * t / longest))]++;
	const most = Math.max(...counts);
	const svg = draw("svg", { viewBox: "0 0 1000 200", preserveAspectRatio: "none", role: "img", class: "columns" });
	const ends = make("p", undefined, "ends");

	svg.setAttribute("aria-label", took.length + " nodes by their time in " + stage.stage + ": half of them " +
		seconds(stage.node.p25_s) + " to " + seconds(stage.node.p75_s) + ", the slowest " + seconds(stage.node.max_s));
	counts.forEach((n, i) => {
		// One node among thousands is to be seen, too.
		const h = n ? Math.max(3, 195 * n / most) : 0;
		const rect = svg.appendChild(draw("rect", { x: i * 25 + 1, y: 200 - h, width: 23, height: h,
			class: map.get(stage.stage) || "c9" }));

		rect.appendChild(draw("title", {})).textContent = n + (n === 1 ? " node: " : " nodes: ") + seconds(longest * i / HISTOGRAM) +
			" to " + seconds(longest * (i + 1) / HISTOGRAM);
	});
	ends.append(make("span", "0"), make("span", "most: " + most + " nodes"), make("span", seconds(longest)));
	return [make("h2", "Nodes by their time in " + stage.stage), svg, ends];
}
