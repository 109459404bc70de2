#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# PyTorch as PyPI has it, on a mount of checkpoints: what Debian's is too old for.

bats_require_minimum_version 1.5.0
load ../wait.bash
load ../functional/stores.bash
load ../functional/ckpt.bash
load ../functional/ckpt-mounts.bash

setup_file()
{
	local build=$BATS_TEST_DIRNAME/../stores/build

	export PYTHONPATH S3
	PYTHONPATH=$("$build" torch):$("$build" safetensors):$BATS_TEST_DIRNAME/../../python
	S3=$("$build" versitygw)
}

setup()
{
	W=$BATS_TEST_TMPDIR
	STORE=file://$W/store
	M=$W/mnt
	mkdir "$W/store" "$M"
}

teardown()
{
	end_mounts
}

save_and_load()
{
	/usr/bin/python3 - "$M" <<-'END'
	import os, sys, torch
	import torch.distributed.checkpoint as dcp
	from safetensors.torch import load_file, save_file
	torch.manual_seed(1)
	model = {f"w{i}": torch.randn(1000, 1500 + i) for i in range(16)}
	def same(got):
	    assert got.keys() == model.keys()
	    assert all(torch.equal(got[k], model[k]) for k in model)
	at = sys.argv[1] + "/last"
	torch.save(model, at + ".pt")
	same(torch.load(at + ".pt"))
	mapped = torch.load(at + ".pt", mmap=True)
	same(mapped)
	os.unlink(at + ".pt")  # while it is mapped
	same(mapped)
	save_file(model, at + ".safetensors")
	same(load_file(at + ".safetensors"))
	for _ in range(2):  # over what is there
	    dcp.save(model, checkpoint_id=at + ".dcp", no_dist=True)
	got = {k: torch.empty_like(v) for k, v in model.items()}
	dcp.load(got, checkpoint_id=at + ".dcp", no_dist=True)
	same(got)
	END
	umount_store
	ckpt verify >&2
}

@test "torch.load by mmap, safetensors and distributed checkpoints: in a directory" {
	mount_store
	save_and_load
}

@test "torch.load by mmap, safetensors and distributed checkpoints: in a bucket" {
	bucket
	mount_store
	save_and_load
}

# In three lines of a program that has DCP: an import, a writer, a reader.
dcp_by_ours()
{
	/usr/bin/python3 -W ignore "$BATS_TEST_DIRNAME/torch-dcp.py" "$W" "$M"
	umount_store
	ckpt verify >&2
}

@test "distributed checkpoints by bootseer.StorageWriter are there whole, and resharded: in a directory" {
	mount_store
	dcp_by_ours
}

@test "distributed checkpoints by bootseer.StorageWriter are there whole, and resharded: in a bucket" {
	bucket
	mount_store
	dcp_by_ours
}

@test "distributed checkpoints by a group are one file, in which each byte is once" {
	local place i stored

	place=$(own_address):29600
	openssl rand -hex 32 >"$W/key"
	chmod 600 "$W/key"
	mkdir "$W/two"
	for i in mnt two; do
		M=$W/$i mount_store --group="$place" --group-key="$W/key" --group-socket="$W/$i.ranks"
	done
	/usr/bin/python3 -W ignore "$BATS_TEST_DIRNAME/torch-dcp.py" "$W" "$M" "$M.ranks" \
		"$W/two" "$W/two.ranks"
	stored=0
	for i in mnt two; do
		stored=$((stored + $(M=$W/$i figure group.saves.stored)))
	done
	echo "# $stored bytes of four saves" >&2
	# Each 12 parts of 193 KB to 195 KB, and one that all ranks have.
	((stored > 4 * 2500000 && stored < 4 * 3000000))
	M=$W/two umount_store
	umount_store
	ckpt verify >&2
}

# Inductor's kernels for the CPU: those for GPUs lie in the same folder.
@test "what torch.compile made on one node the next one finds in its cache" {
	cat >"$W/warm.py" <<-'END'
	import torch
	from torch._dynamo.utils import counters

	@torch.compile
	def step(x, y):
	    return (x @ y).relu().sum(-1) * 3 + x.mean()

	step(torch.randn(64, 64), torch.randn(64, 64))
	n = counters["inductor"]
	print(n["fxgraph_cache_hit"], n["fxgraph_cache_miss"])
	END
	export TORCHINDUCTOR_CACHE_DIR=$W/kernels
	warm() {
		"$bootseer" env run --unpack --store "$STORE" --target "$W/kernels" \
			--key torch=2.7.1 -- /usr/bin/python3 "$W/warm.py"
	}
	[ "$(warm)" = "0 1" ]
	mv "$W/kernels" "$W/first"
	run -0 --separate-stderr warm
	[ "$output" = "" ]
	diff -r "$W/first" "$W/kernels"
	[ "$(/usr/bin/python3 "$W/warm.py")" = "1 0" ]
}
