// SPDX-License-Identifier: Apache-2.0
// Views of images, peers and nodes; app.js, which comes after it, has what all views share.
"use strict";

const SAYS = "bootseerd --service " + location.origin; // how a node reports
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
	["Last", (i) => ago(i.received_at * 1000)],
];

function imagesView(found) {
	const view = make("section");

	if (found.images.length)
		view.append(headOf("Images that nodes started", view), table(IMAGE_COLUMNS, found.images));
	else
		view.append(make("h2", "Images that nodes started"),
			nothing("No node said how a start of an image went. Nodes report:", SAYS));
	return view;
}

const CONVERSION_BADGES = { failed: "slow", waiting: "busy", running: "busy", done: "good" };
const LATE_MS = 600000; // that an image waits although it is due

function isTriedAgain(c) {
	return c.state === "waiting" && c.tries > 0;
}

function convertedOf(c) {
	const cell = make("span", c.repo + ":" + c.tag, "job");

	if (c.error)
		cell.append(make("small", c.error, c.state === "failed" ? "why slow" : "why"));
	return cell;
}

// When it ended, or goes on.
function thenOf(c) {
	const wait = c.due_at - Date.now() / 1000;

	if (isTriedAgain(c))
		return wait < 60 ? "tried again soon" : "tried again in " + seconds(60 * Math.ceil(wait / 60));
	if (c.state === "running" || c.state === "waiting")
		return "";
	const e = make("span", c.state === "done" ? "done " : "failed ");

	e.append(ago(c.due_at * 1000));
	return e;
}

const CONVERSION_COLUMNS = [
	["Image", convertedOf],
	["State", (c) => make("span", c.state, "badge " + CONVERSION_BADGES[c.state])],
	["Pushed", (c) => ago(c.queued_at * 1000)],
	["Since then", thenOf],
	["Tries", (c) => String(c.tries), true],
	["Form", (c) => c.form],
	["Worker", (c) => c.worker || "-"],
];

// A line for the one on call: what failed, or waits for a worker, and what to do.
function conversionLines(found) {
	const box = make("div", undefined, "now");
	const n = found.counts;
	const late = found.conversions.some((c) => c.state === "waiting" && c.due_at * 1000 < Date.now() - LATE_MS);

	if (n.failed)
		box.append(make("p", n.failed + (n.failed === 1 ? " image is" : " images are") +
			" not converted: mend what is said below, and push the tag again; until then containers start the ordinary way.", "bad"));
	if (late && !n.running)
		box.append(make("p", "Images wait, and no worker takes them: is bootseer image convert-new running?", "bad"));
	return box;
}

function conversionsView(found) {
	const view = make("section");
	const n = found.counts;
	const all = n.waiting + n.running + n.failed + n.done;
	const rank = (c) => (isTriedAgain(c) ? 1 : { failed: 0, running: 2, waiting: 3, done: 4 }[c.state]);

	if (!found.conversions.length) {
		view.append(make("h2", "Images that were pushed, and their conversions"), nothing("No registry said that an image was pushed which is to be converted. This service is told which:",
			"bootseer-registry --convert"));
		return view;
	}
	view.append(headOf("Images that were pushed, and their conversions", view), conversionLines(found), factsOf([["Failed", make("span", String(n.failed), n.failed ? "slow" : "")],
		["Waiting", String(n.waiting)], ["Running", String(n.running)], ["Done", String(n.done)]]));
	if (all > found.conversions.length)
		view.append(make("p", "Below are " + found.conversions.length + " of " + all + ".", "why"));
	// What is wrong comes first.
	view.append(table(CONVERSION_COLUMNS, found.conversions.slice().sort((a, b) => rank(a) - rank(b))));
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
		box.append(nothing("No node said how a start of it went. Nodes report:", SAYS));
	if (others.length)
		box.append(make("h3", "Other images of the repository"), firstRows(IMAGE_COLUMNS, others));
	return box;
}

// How much of the hot set is read until when.
function growth(hot) {
	const half = hot.stored_by_time.findIndex((n) => n >= hot.stored / 2);
	const at = (i) => hot.last_ms * (i + 1) / TIME_COLUMNS;
	const say = hot.last_ms < 5000 ? (n) => Math.round(n) + " ms" : ms;
	const names = hot.stored_by_time.map((_, i) => say(at(i)));

	return [make("h3", "Stored bytes that are read, by the time of the start"),
		make("p", "Half of the hot set is read within " + say(at(half)) + ", all of it within " + say(hot.last_ms) + "."),
		barChart("Stored bytes that are read, by time", names, [{ colour: theme("c0"), line: true, data: hot.stored_by_time,
			texts: hot.stored_by_time.map((n, i) => "until " + names[i] + ": " + size(n)) }], { say: size })];
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
function sharesBar(name, of) {
	const sum = of.reduce((n, p) => n + p[1], 0);
	const own = of.map(([what, n, colour]) => [what + " " + share(n, sum), n, theme(colour)]);

	return [legend(own.map(([what, , colour]) => [what, colour])), partsChart(name, [[name, own]], size)];
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
		part(view, "Hot set", nothing("Nobody recorded a start of it, or the recording is gone."));
	if (found.starts.length)
		part(view, "Starts, the last one first", firstRows([
			["Node", (s) => nodeLink(s.node)],
			["Job", (s) => (s.job ? link(s.job, "job/" + s.job) : "")],
			["Heard of", (s) => ago(s.received_at * 1000)],
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
const FLOW_BARS = 20; // nodes that are drawn

// What nodes gave, and below it what they had.
function flowBars(nodes) {
	const of = (key, what, colour, stack) => ({ colour: theme(colour), stack, data: nodes.map((n) => n[key]),
		texts: nodes.map((n) => n.node + " " + what + ": " + size(n[key])) });

	return barChart("Nodes, those that gave most first", nodes.map((n) => n.node), [of("gave", "gave", "c0", "gave"),
		of("got", "had from peers", "c2", "had"), of("origin", "had from the registry", "c6", "had")],
	{ across: true, stacked: true, grouped: true, say: size });
}

function flowParts(view, flow) {
	const nodes = flow.nodes.map(([node, got, origin, gave, givers, takers]) =>
		({ node, got, origin, gave, givers, takers }));

	view.append(factsOf([
		["Nodes", String(flow.nodes_all)],
		["From peers", size(flow.peer_bytes)],
		["From registries", size(flow.origin_bytes)],
		["Share of peers", share(flow.peer_bytes, flow.peer_bytes + flow.origin_bytes)],
		["Reports", String(flow.reports)],
	]));
	if (flow.left_out)
		view.append(make("p", flow.left_out + " figures are left out: there are too many."));
	view.append(make("h3", "Nodes, those that gave most first"), legend([["gave", theme("c0")],
		["had from peers", theme("c2")], ["had from the registry", theme("c6")]]), flowBars(nodes.slice(0, FLOW_BARS)));
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
	make("p", "Rows gave, columns had; the larger a point, the more."), pairsChart(flow.pairs, size), firstRows([
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
		view.append(nothing("No node said then how a start of an image went. Nodes report:", SAYS));
	swarmsPart(view, swarms);
	return view;
}

function swarmsPart(view, found) {
	if (!found.swarms.length) {
		part(view, "Images that nodes share now", nothing("Nobody shares an image now."));
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
	const links = make("p", undefined, "links");

	view.append(make("h2", "Peers in " + flow.job + ", attempt " + flow.attempt), links);
	links.append(moment(flow.begin_ms), " ", link("its start", "start/" + flow.id));
	for (const i of flow.images)
		links.append(" ", hotLink(i, (i.repo ? i.repo + "@" : "image ") + shortDigest(i.image) + ", workload " + i.workload));
	if (flow.reports)
		flowParts(view, flow);
	else
		view.append(nothing("No node said how its image came, or of which job. Nodes report:", SAYS));
	return view;
}

// --------------------------------------------------------------------- nodes

// Who may see nodes may not always see what they lack.
async function askDoctor(query) {
	try {
		return await ask("/v1/doctor?" + query);
	} catch (e) {
		return { nodes: [], why: e.message };
	}
}

const NODES_SHOWN = 5; // of those that lack the same

function findingOf(f) {
	return make("span", (f.needed ? "missing: " : "advice: ") + f.name, f.needed ? "slow" : "");
}

// The words of the first node, where others have some of their own.
function whatOf(f) {
	const cell = make("span", f.detail, "words");

	if (f.differs)
		cell.append(" ", make("small", "(" + f.nodes[0].node + "; others differ, each on its page)"));
	return cell;
}

const WORDS_COLUMNS = [
	["Finding", findingOf],
	["What", whatOf],
	["Cure", (f) => make("span", f.cure, "words")],
];

// What is needed first.
function byNeed(findings) {
	return findings.slice().sort((a, b) => b.needed - a.needed);
}

// What nodes lack, each once with its nodes: what is needed, and of most nodes, first.
function findingsOf(nodes) {
	const all = new Map();

	for (const n of nodes)
		for (const f of n.failed) {
			const key = JSON.stringify([f.needed, f.name, f.cure]);

			if (!all.has(key))
				all.set(key, { ...f, nodes: [] });
			const of = all.get(key);

			of.differs = of.differs || f.detail !== of.detail;
			// A node may have found the same twice, as in two images.
			if (of.nodes[of.nodes.length - 1] !== n)
				of.nodes.push(n);
		}
	return byNeed([...all.values()].sort((a, b) => b.nodes.length - a.nodes.length));
}

// The nodes of a finding: the first ones, and the others behind them.
function nodesOf(f) {
	const list = (nodes) => nodes.flatMap((n, i) => [i ? ", " : "", nodeLink(n.node, f.needed)]);
	const cell = make("span", undefined, "words");

	cell.append(...list(f.nodes.slice(0, NODES_SHOWN)));
	if (f.nodes.length > NODES_SHOWN) {
		const rest = make("span");

		rest.append(...list(f.nodes.slice(NODES_SHOWN)));
		cell.append(details(f.nodes.length - NODES_SHOWN + " more", rest, false));
	}
	return cell;
}

// One line for the one on call: what is wrong, and what to do.
function doctorLine(found, findings) {
	const most = findings.find((f) => f.needed);
	const box = make("div", undefined, "now");

	if (!found.nodes_fresh)
		box.append(make("p", "No node was heard of for three hours: does each run bootseer node doctor --report every hour?", "bad"));
	else if (found.nodes_missing)
		box.append(make("p", found.nodes_missing + " of " + found.nodes_fresh + " nodes lack what they need to mount images. " +
			(most ? "First, on " + most.nodes.length + " of them, " + most.name + ": " + most.cure : ""), "bad"));
	return box;
}

function doctorPart(view, found) {
	const silent = found.nodes_all - found.nodes_fresh;
	const findings = findingsOf(found.nodes.filter((n) => n.fresh));

	view.append(make("h2", "What nodes lack"));
	if (found.why) {
		view.append(make("p", "This is not shown: " + found.why));
		return;
	}
	if (!found.nodes_all) {
		view.append(nothing("No node said what it lacks. Have each run every hour:", "bootseer node doctor --report"));
		return;
	}
	view.append(doctorLine(found, findings), factsOf([
		["Nodes that said it", String(found.nodes_fresh)],
		["Of them, that lack what they need", make("span", String(found.nodes_missing), found.nodes_missing ? "slow" : "")],
		["With advice", String(found.nodes_advised)],
		["Not heard of for three hours", String(silent)],
	]));
	if (found.nodes_all > found.nodes.length)
		view.append(make("p", "Below are the " + found.nodes.length + " of " + found.nodes_all + " nodes that lack most.", "why"));
	if (findings.length)
		view.append(firstRows([...WORDS_COLUMNS,
			["Nodes", (f) => String(f.nodes.length), true],
			["Which", nodesOf],
		], findings));
	else if (found.nodes_fresh)
		view.append(make("p", "None lacks anything."));
	if (silent)
		part(view, "Nodes that were not heard of for three hours", firstRows([
			["Node", (n) => nodeLink(n.node)],
			["Last", (n) => ago(n.received_at * 1000)],
			["Lacked then", (n) => make("span", byNeed(n.failed).map((f) => f.name).join(", ") || "nothing", "words")],
		], found.nodes.filter((n) => !n.fresh).sort((a, b) => b.received_at - a.received_at)));
}

// What one node lacks, and when it said so.
function nodeDoctorPart(view, node) {
	const said = make("p", node.failed.length ? "What it lacks, said " : "It lacks nothing, said ");

	said.append(ago(node.received_at * 1000));
	if (!node.fresh)
		said.append(make("span", "; not heard of since: is bootseerd up there?", "slow"));
	view.append(said);
	if (node.failed.length)
		view.append(firstRows(WORDS_COLUMNS, byNeed(node.failed)));
}

function nodesView(found, doctor) {
	const view = make("section");

	doctorPart(view, doctor);
	view.append(make("h2", "Nodes that were slow within 30 days"));
	if (!found.nodes.length) {
		view.append(nothing("No node was, in the starts that are over."));
		return view;
	}
	view.append(table([
		["Node", (n) => nodeLink(n.node)],
		["Slow in", (n) => String(n.slow), true],
		["Of its starts", (n) => String(n.starts), true],
		["Share", (n) => (100 * n.slow / n.starts).toFixed(0) + " %", true],
		["More than the median, in all", (n) => seconds(n.excess_s), true],
		["Last", (n) => ago(n.last * 1000)],
	], found.nodes));
	return view;
}

function nodeView(found, doctor) {
	const view = make("section");
	const slow = found.starts.filter((s) => s.slow).length;

	view.append(make("h2", "Node " + found.node));
	if (doctor.why)
		view.append(make("p", "What it lacks is not shown: " + doctor.why));
	for (const n of doctor.nodes)
		nodeDoctorPart(view, n);
	if (!found.starts.length) {
		view.append(nothing("No start of it is over."));
		return view;
	}
	view.append(make("p", "slow in " + slow + " of its last " + found.starts.length + " starts"));
	if (found.starts.length > 1)
		view.append(...history(found.starts));
	view.append(table([
		["Start", (s) => link(s.job, "start/" + s.id)],
		["Began", (s) => moment(s.at * 1000)],
		["Took", (s) => make("span", seconds(s.busy_s), s.slow ? "slow" : ""), true],
		["Median node", (s) => seconds(s.median_s), true],
		["Stage", (s) => s.stage],
		["Likely cause", (s) => s.cause.replace("_", " ")],
	], found.starts));
	return view;
}

// -------------------------------------------------- starts by size, nodes by time

const HISTORY_MOST = 100; // starts of a node that are drawn
const HISTOGRAM = 40; // columns at most, and one
const HISTOGRAM_FROM = 10; // nodes, of fewer a list says more

function rangeName(r, unit) {
	const word = unit === "gpus" ? " GPU" : " node";

	if (!r.to)
		return r.from + " and more" + word + "s";
	return (r.from === r.to ? String(r.from) : r.from + " to " + r.to) + word + (r.to > 1 ? "s" : "");
}

function times(n) {
	return n.toFixed(n % 1 ? 2 : 0);
}

function scaleParts(view, found, map) {
	const of = (name, colour) => found.ranges.map((r) => [rangeName(r, found.unit), r[name], theme(colour)]);
	const ranges = found.ranges.filter((r) => r.job_s);
	const stages = found.stages.filter((s) => s.node_s).sort((a, b) => b.node_s.median - a.node_s.median);
	const cell = (spread, say) => (spread ? say(spread.median) : "-");

	if (!found.starts)
		return;
	part(view, "By the size of the job: " + found.starts + (found.starts === 1 ? " start of " : " starts of ") +
		found.jobs + (found.jobs === 1 ? " job" : " jobs"),
	found.starts_of_no_size ? make("p", found.starts_of_no_size + " of them do not say how many GPUs they " +
		"have, and are left out.") : "",
	make("h3", "Until training began: half of the starts in the box"), boxChart("Until training began", of("job_s", "c0"), seconds),
	make("h3", "The median node's own time"), boxChart("The median node's own time", of("node_s", "c0"), seconds),
	make("h3", "Slowest node by the median node"), boxChart("Slowest node by the median node", of("max_median", "c0"), times, 1),
	make("h3", "Starts of a job"), boxChart("Starts of a job", of("starts_of_job", "c0"), times),
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
			boxChart("Stages of the median node", stages.slice(0, 20).map((s) => [s.stage, s.node_s, map.get(s.stage)]), seconds));
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
	const path = start.critical_path.slice(0, ROWS_MOST);
	const name = (s) => s.node + " " + s.stage;

	return barChart("Critical path", path.map(name), [{ colour: path.map((s) => map.get(s.stage) || theme("c9")), wide: 12, least: 2,
		data: path.map((s) => [s.at_s, s.at_s + s.duration_s]),
		texts: path.map((s) => name(s) + ": " + seconds(s.duration_s) + ", from " + seconds(s.at_s) + " on") }],
	{ across: true, say: seconds });
}

// Stages of two starts, one below the other.
function sides(stages) {
	const of = (side) => (side ? side.job_s : 0);
	const shown = stages.slice(0, ROWS_MOST);
	const a = theme("c0"), b = theme("c6");

	return [legend([["A", a], ["B", b]]), barChart("Stages of A and B", shown.map((s) => s.stage), [
		{ colour: a, data: shown.map((s) => of(s.a)), texts: shown.map((s) => s.stage + ": A " + seconds(of(s.a)) +
			", B " + seconds(of(s.b))) },
		{ colour: b, data: shown.map((s) => of(s.b)) }], { across: true, grouped: true, say: seconds })];
}

// A node's starts as columns, the oldest first, with a mark for the median node.
function history(starts) {
	const shown = starts.slice(0, HISTORY_MOST).reverse();
	const own = theme("c0"), slow = theme("slow"), median = theme("text");

	return [legend([["this node", own], ["this node, slow", slow], ["median node", median]]),
		barChart("Starts of the node", shown.map((s) => when(s.at * 1000)), [
			{ colour: shown.map((s) => (s.slow ? slow : own)), data: shown.map((s) => s.busy_s), order: 2,
				texts: shown.map((s) => when(s.at * 1000) + " " + s.job + ": " + seconds(s.busy_s) + ", median node " +
					seconds(s.median_s) + (s.slow ? ", slow" : "")) },
			{ colour: median, data: shown.map((s) => [s.median_s, s.median_s]), least: 3, order: 1 }], { say: seconds })];
}

// How many nodes took how long for a stage: the one in which the slowest was furthest off.
function histogram(start, found, map) {
	const far = (s) => s.node.max_s - s.node.median_s;
	const stage = start.stages.filter((s) => s.node.nodes >= HISTOGRAM_FROM).sort((a, b) => far(b) - far(a))[0];
	const index = stage ? found.stages.indexOf(stage.stage) : -1;
	const took = [];

	if (index < 0 || !stage.node.max_s)
		return [];
	for (const [, , , runs] of found.nodes) {
		let sum = 0;

		for (let k = 0; k < runs.length; k += 4)
			if (runs[k] === index)
				sum += runs[k + 2] / 1000;
		if (sum)
			took.push(sum);
	}
	if (!took.length)
		return [];
	const most = Math.max(...took), least = Math.min(...took);
	// Where all took long the axis does not begin at nothing.
	const step = stepOfSeconds(least > most / 2 ? most - least : most, HISTOGRAM);
	const from = least > most / 2 ? Math.floor(least / step) : 0;
	const counts = new Array(Math.floor(most / step) - from + 1).fill(0);
	const at = (i) => secondsTick(step * (from + i));

	for (const t of took)
		counts[Math.floor(t / step) - from]++;
	// One node among thousands is to be seen, too.
	return [make("h2", "Nodes by their time in " + stage.stage), barChart("Nodes by their time in " + stage.stage,
		counts.map((_, i) => at(i)), [{ colour: map.get(stage.stage), least: 3, data: counts.map((n) => n || null),
			texts: counts.map((n, i) => (n ? at(i) + " to " + at(i + 1) + ": " + n +
				(n === 1 ? " node" : " nodes") : "")) }], { say: String })];
}
