#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# PyTorch as PyPI has it, on a mount of checkpoints and with its caches: what Debian's is too old for.

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

# Inductor's kernels for the CPU, and Triton's for a GPU that is not there: ptxas needs none.
@test "what nodes compiled by torch.compile and Triton is one cache, and none compiles it again" {
	local first

	cat >"$W/warm.py" <<-'END'
	import sys
	import torch
	import triton
	import triton.language as tl
	from torch._dynamo.utils import counters
	from triton.backends.compiler import GPUTarget
	from triton.compiler import ASTSource

	@triton.jit
	def scale(x, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
	    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
	    tl.store(x + i, tl.load(x + i, mask=i < n) * FACTOR, mask=i < n)

	for model in map(int, sys.argv[1:]):
	    def step(x, y):
	        return (x @ y).relu().sum(-1) * model + x.mean()

	    torch._dynamo.reset()
	    torch.compile(step)(torch.randn(64, 64), torch.randn(64, 64))
	    kernel = triton.compile(
	        ASTSource(fn=scale, signature={"x": "*fp32", "n": "i32", "FACTOR": "constexpr",
	                                       "BLOCK": "constexpr"},
	                  constexprs={"FACTOR": model, "BLOCK": 128}),
	        target=GPUTarget("cuda", 80, 32))
	    assert kernel.asm["cubin"][:4] == b"\x7fELF"
	n = counters["inductor"]
	print(n["fxgraph_cache_hit"], n["fxgraph_cache_miss"])
	END
	# Each cubin is made by a run of it.
	cat >"$W/ptxas" <<-END
	#!/bin/sh
	case " \$* " in *" --version "*) ;; *) echo >>"$W/assembled" ;; esac
	exec "$(find "${PYTHONPATH%%:*}" -path '*nvidia/bin/ptxas')" "\$@"
	END
	chmod +x "$W/ptxas"
	export TRITON_PTXAS_PATH=$W/ptxas TRITON_CACHE_DIR=$W/kernels/triton
	# A pool of compilers would import torch once more each time.
	export TORCHINDUCTOR_CACHE_DIR=$W/kernels/inductor TORCHINDUCTOR_COMPILE_THREADS=1
	warm() { # NODE COMMAND...
		mkdir -p "$W/$1" "$W/kernels"
		# shellcheck disable=SC2016
		unshare --mount sh -c 'mount --bind "$0" "$1" && shift && exec "$@"' "$W/$1" \
			"$W/kernels" "$bootseer" env run --merge --store "$STORE" \
			--target "$W/kernels" --key torch=2.7.1 -- "${@:2}"
	}
	mkfifo "$W/go"
	warm a sh -c "/usr/bin/python3 '$W/warm.py' 1 2 >'$W/a.out' && read -r line <'$W/go'" 3>&- &
	first=$!
	[ "$(warm b /usr/bin/python3 "$W/warm.py" 2 3)" = "0 2" ]
	echo >"$W/go"
	wait "$first"
	[ "$(cat "$W/a.out")" = "0 2" ]
	[ "$(wc -l <"$W/assembled")" = 4 ]
	# A third node has what both compiled, and adds one.
	[ "$(warm c /usr/bin/python3 "$W/warm.py" 1 2 3 4)" = "3 1" ]
	[ "$(warm d /usr/bin/python3 "$W/warm.py" 1 2 3 4)" = "4 0" ]
	[ "$(wc -l <"$W/assembled")" = 5 ]
}
