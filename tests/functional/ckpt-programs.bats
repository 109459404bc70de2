#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Programs that people have, on a mount of checkpoints: they know nothing of it.

bats_require_minimum_version 1.5.0
load ../noise.bash
load ../wait.bash
load stores.bash
load ckpt.bash
load ckpt-mounts.bash

setup_file()
{
	export F=$BATS_FILE_TMPDIR S3 PYTHONPATH
	S3=$("$BATS_TEST_DIRNAME/../stores/build" versitygw)
	PYTHONPATH=$("$BATS_TEST_DIRNAME/../stores/build" safetensors)
	make_checkpoint "$F/in"
}

setup() { begin_mounts; }
teardown() { end_mounts; }

# Debian's, which has what Debian packages.
python()
{
	/usr/bin/python3 "$@"
}

# All that was written is as it should be in the store, too.
umount_and_verify()
{
	umount_store
	ckpt verify >&2
}

@test "an archive in torch's form is read in the order of its numbers" {
	mount_store
	python3 - "$M/m.pt" <<-'PY'
		import random, sys, zipfile
		noise = random.Random(1).randbytes(1 << 20)
		with zipfile.ZipFile(sys.argv[1], "w") as z:
		    for n in sorted(map(str, range(24))):
		        z.writestr(f"m/data/{n}", noise[int(n):] + noise[:int(n)])
	PY
	umount_store
	mount_store
	python3 - "$M/m.pt" <<-'PY'
		import random, sys, zipfile
		noise = random.Random(1).randbytes(1 << 20)
		with zipfile.ZipFile(sys.argv[1]) as z:
		    for n in range(24):
		        assert z.read(f"m/data/{n}") == noise[n:] + noise[:n], n
	PY
	# Each chunk once, and that of the directory a second time.
	[ "$(figure bytes_fetched)" -le $((2 * 24 << 20)) ]
	umount_store
}

@test "safetensors saves and loads, whole and by tensors" {
	mount_store
	python - "$M" <<-'END'
	import os, sys
	import numpy as np
	from safetensors import safe_open
	from safetensors.numpy import load, load_file, save_file
	at = sys.argv[1] + "/model.safetensors"
	rand = np.random.default_rng(1)
	tensors = {f"layer.{i}": rand.standard_normal((1024, 1024 + i), np.float32)
	           for i in range(17)}
	save_file(tensors, at, metadata={"step": "1"})
	save_file(tensors, at)  # over it
	assert os.listdir(sys.argv[1]) == ["model.safetensors"]
	for got in load_file(at), load(open(at, "rb").read()):
	    assert got.keys() == tensors.keys()
	    for name, t in tensors.items():
	        assert np.array_equal(got[name], t), name
	with safe_open(at, "np") as f:
	    assert np.array_equal(f.get_slice("layer.7")[5:9], tensors["layer.7"][5:9])
	END
	[ "$(ckpt stat model.safetensors | jq -r .columns)" = 8 ]
	umount_and_verify
}

# Larger than what stays staged, and over a file that is good.
@test "np.savez, h5py and zipfile write headers again where they left long ago" {
	PYTHONPATH+=:$("$BATS_TEST_DIRNAME/../stores/build" h5py)
	mount_store
	python - "$M" <<-'END'
	import sys, zipfile
	import h5py
	import numpy as np
	at = sys.argv[1]
	for n in 1_000_000, 6_000_000:
	    x = np.random.default_rng(n).random(n)
	    np.savez(at + "/a.npz", x=x, y=x[:1000])
	    with np.load(at + "/a.npz") as z:
	        assert np.array_equal(z["x"], x) and np.array_equal(z["y"], x[:1000])
	for k in 0, 100:
	    with h5py.File(at + "/w.h5", "w") as f:
	        for i in range(12):
	            f.create_dataset(f"l{i}", data=np.full(500_000, i + k, "f8"))
	    with h5py.File(at + "/w.h5", "r") as f:
	        assert all((f[f"l{i}"][:] == i + k).all() for i in range(12))
	with h5py.File(at + "/w.h5", "r+") as f:
	    f["l3"][5:9] = 7
	    del f["l4"]
	    f.create_dataset("new", data=np.arange(1_000_000), chunks=True)
	with h5py.File(at + "/w.h5", "r") as f:
	    assert f["l3"][4:10].tolist() == [103, 7, 7, 7, 7, 103] and "l4" not in f
	    assert (f["new"][:] == np.arange(1_000_000)).all()
	data = np.random.default_rng(2).bytes(16_000_000)
	with zipfile.ZipFile(at + "/z.zip", "w") as z:
	    for i in range(3):
	        with z.open(f"{i}", "w") as f:
	            f.write(data)
	with zipfile.ZipFile(at + "/z.zip", "a") as z:
	    z.writestr("late", b"x" * 100000)
	with zipfile.ZipFile(at + "/z.zip") as z:
	    assert z.testzip() is None and z.read("2") == data
	    assert z.namelist()[3:] == ["late"]
	END
	umount_and_verify
}

@test "sqlite keeps a database: a journal, many transactions, vacuum" {
	mount_store
	python - "$M/db" <<-'END'
	import sqlite3, sys
	def open_db():
	    return sqlite3.connect(sys.argv[1], isolation_level=None)
	db = open_db()
	db.execute("create table t (k integer primary key, v blob)")
	for i in range(10):
	    db.execute("begin")
	    for k in range(50):
	        db.execute("insert into t values (?, randomblob(80000))", (50 * i + k,))
	    db.execute("commit")
	db.execute("begin")
	db.execute("delete from t")
	db.execute("rollback")
	db.close()
	db = open_db()
	db.execute("update t set v = 'x' where k % 7 = 0")
	db.execute("vacuum")
	assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
	assert db.execute("select count(*), sum(v = 'x') from t").fetchone() == (500, 72)
	# A log of writes has its shared memory in a mapping to be written, unless one process
	# has the database alone.
	db.execute("pragma locking_mode = exclusive")
	assert db.execute("pragma journal_mode = wal").fetchone() == ("wal",)
	db.execute("insert into t values (5000, 'y')")
	assert db.execute("pragma wal_checkpoint").fetchone()[0] == 0
	assert db.execute("pragma journal_mode = delete").fetchone() == ("delete",)
	db.close()
	assert open_db().execute("select v from t where k = 5000").fetchone() == ("y",)
	END
	umount_and_verify
}

@test "torch saves and loads, in both formats and as Lightning does" {
	mount_store --tail=8M
	python - "$M" <<-'END'
	import io, os, sys, torch
	torch.manual_seed(1)
	state = {"step": 7, "model": {f"w{i}": torch.randn(500, 1500 + i)
	                              for i in range(16)}}
	def same(a, b):
	    assert a["step"] == b["step"] and a["model"].keys() == b["model"].keys()
	    assert all(torch.equal(a["model"][k], b["model"][k]) for k in a["model"])
	at = sys.argv[1] + "/last.ckpt"
	torch.save(state, at)
	same(torch.load(at), state)
	torch.save(state, at, _use_new_zipfile_serialization=False)
	same(torch.load(at, map_location="cpu"), state)
	with open(at, "wb") as f:  # a file object, that is not seeked
	    torch.save(state, f)
	same(torch.load(at), state)
	# Whole in memory first, a name of its own, fsync, rename.
	buf = io.BytesIO()
	state["step"] = 8
	torch.save(state, buf)
	with open(at + ".part", "wb") as f:
	    f.write(buf.getbuffer())
	    f.flush()
	    os.fsync(f.fileno())
	os.replace(at + ".part", at)
	same(torch.load(at), state)
	assert os.listdir(sys.argv[1]) == ["last.ckpt"]
	END
	umount_and_verify
}

@test "rsync -a copies in, finds nothing more to do, and copies back" {
	mount_store
	rsync -a "$F/in/" "$M/in/"
	diff -r "$F/in" "$M/in"
	[ -z "$(rsync -rtn --checksum --out-format=%n --omit-dir-times \
		--size-only "$F/in/" "$M/in/")" ]
	# Times of striped files are kept, so their bytes are not compared.
	[ -z "$(rsync -atn --out-format=%n "$F/in/model.pt" "$M/in/model.pt")" ]
	noise 40000000 30 >"$W/changed"
	cp -a "$F/in" "$W/in"
	cp "$W/changed" "$W/in/shard/rank-0.pt"
	rm "$W/in/optimizer.pt"
	rsync -a --delete --delay-updates "$W/in/" "$M/in/"
	diff -r "$W/in" "$M/in"
	[ -z "$(find "$M/in" -name '.*' ! -path "$M/in")" ]
	rsync -a "$M/in/" "$W/back/"
	diff -r "$W/in" "$W/back"
	umount_and_verify
}

@test "cp and tar keep what they copy: large, small and sparse files" {
	local before

	mount_store
	truncate -s 30M "$W/sparse"
	noise 1000 4 | dd of="$W/sparse" bs=1M seek=20 conv=notrunc status=none
	cp "$W/sparse" "$M/sparse"
	cp --sparse=always "$M/sparse" "$M/again"
	cmp "$W/sparse" "$M/again"
	cp -a "$F/in" "$M/in"
	cp -ru "$F/in/." "$M/in"
	(cd "$M" && tar -I "gzip -1" -cf in.tgz in/optimizer.pt && tar -dzf in.tgz)
	tar -C "$F" --append -f "$M/all.tar" in
	tar -C "$M" --append -f "$M/all.tar" sparse
	tar -C "$F" -df "$M/all.tar" in
	# tar reads 10 KiB at a time, the store is asked for whole chunks.
	before=$(figure requests)
	# The last one: what is farther from the end was sent already.
	tar -C "$F/in" --append -f "$M/all.tar" done
	[ $(($(figure requests) - before)) -lt 500 ]
	tar -C "$M" --delete -f "$M/all.tar" done
	[ "$(tar tf "$M/all.tar" | wc -l)" = "$(($(find "$F/in" | wc -l) + 1))" ]
	umount_and_verify
}

@test "git keeps a repository: add, commit, clone, gc, fsck" {
	export HOME=$W GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b \
		GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
	mount_store
	git init -q -b main "$M/repo"
	cd "$M/repo"
	cp -r "$F/in/config.json" "$F/in/optimizer.pt" .
	mkdir sub
	for i in {1..30}; do echo "$i" >"sub/$i"; done
	git add .
	git commit -qm first
	echo more >>config.json
	git mv sub/1 sub/one
	git commit -qam second
	git checkout -q -b side HEAD~1
	echo side >sub/2
	git commit -qam side
	git merge -q -m merge main
	git gc -q --prune=now
	git fsck --strict
	[ -z "$(git status --porcelain)" ]
	git clone -q "file://$M/repo" "$M/clone"
	git clone -q . "$W/clone"
	cd /
	diff -r -x .git "$M/repo" "$M/clone"
	diff -r -x .git "$M/repo" "$W/clone"
	umount_and_verify
}

verified() # ARGUMENT...: fio's own check of what it wrote
{
	fio --name=verified --directory="$M" --verify=crc32c --verify_fatal=1 \
		--verify_state_save=0 --fallocate=none --output="$W/fio" \
		--aux-path="$W" "$@" || { cat "$W/fio"; return 1; }
}

@test "fio finds what it wrote: blocks, direct, by many, by mmap, at random" {
	mount_store --memory=256M
	verified --rw=write --bs=1M --size=48M --end_fsync=1
	verified --rw=read --bs=1M --size=48M --verify_only
	# Checked as it was written: blocks in another order, and whole.
	verified --rw=randread --bs=1M --size=48M --verify_only
	verified --rw=read --bs=1M --size=48M --verify_only --ioengine=mmap
	verified --rw=read --bs=1M --size=48M --verify_only --direct=1
	verified --filename=odd --rw=write --bsrange=512-900k --bs_unaligned=1 \
		--size=40M --do_verify=1 --direct=1
	verified --filename=deep --rw=write --bs=256k --size=64M \
		--ioengine=libaio --iodepth=8 --direct=1 --do_verify=1
	verified --filename_format='many.$jobnum' --rw=write --bs=128k \
		--size=20M --numjobs=4 --group_reporting
	umount_and_verify
}

posix() # [OPTION]
{
	mkdir "$M/posix"
	python "$BATS_TEST_DIRNAME/ckpt-posix.py" "$M/posix" "$@"
}

@test "calls do what POSIX says, and fail as it says: in a directory" {
	mount_store
	posix
	umount_and_verify
}

@test "calls do what POSIX says, and fail as it says: in a bucket" {
	bucket
	mount_store
	posix --plain-stale
	umount_and_verify
}

at_random() # SEED OPERATIONS [OPTION]
{
	mkdir "$M/$1"
	python "$BATS_TEST_DIRNAME/ckpt-random.py" "$M/$1" "$1" "$2" ${3-}
}

@test "random operations give what a model of the file says: in a directory" {
	mount_store --tail=8M --memory=128M
	for seed in 1 2 3 4 5 6; do
		at_random "$seed" 300
	done
	umount_and_verify
}

@test "random operations give what a model of the file says: in a bucket" {
	bucket
	mount_store --tail=8M --memory=128M
	at_random 7 300 --plain-stale
	at_random 8 300 --plain-stale
	umount_and_verify
}
