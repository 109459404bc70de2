#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Programs of PyPI that save checkpoints, on a mount: zarr, the Trainers of transformers and of
# Lightning, orbax.

bats_require_minimum_version 1.5.0
load ../wait.bash
load ../functional/stores.bash
load ../functional/ckpt.bash
load ../functional/ckpt-mounts.bash

build=$BATS_TEST_DIRNAME/../stores/build

# HDFS takes a minute to start: all tests have the same servers, each a folder of its own.
setup_file()
{
	export S3 HDFS NAMENODE SERVERS no_proxy='*'
	S3=$("$build" versitygw)
	HDFS=$("$build" hadoop-hdfs)
	hdfs_server "$BATS_FILE_TMPDIR/hdfs" 2
	SERVERS=${PIDS[*]}
}

teardown_file()
{
	read -ra PIDS <<<"$SERVERS"
	stop_servers
}

setup() { begin_mounts; }
teardown() { end_mounts; }

directory() { :; } # begin_mounts has one
folder_of_hdfs() { STORE="hdfs://$NAMENODE/$BATS_TEST_NUMBER?user=root"; }

# The program on standard input, with the folder of a mount of each kind of store.
on_each_store() # PACKAGE
{
	local packages

	packages=$("$build" "$1")
	cat >"$W/program.py"
	for store in directory bucket folder_of_hdfs; do
		"$store"
		mount_store
		HF_HUB_OFFLINE=1 PYTHONPATH=$packages /usr/bin/python3 -W ignore \
			"$W/program.py" "$M" >&2
		umount_store
		ckpt verify >&2
	done
}

@test "zarr: arrays that are written, changed and appended to, and a zip of them" {
	on_each_store zarr <<-'END'
	import sys, numpy, zarr
	at = sys.argv[1] + "/z.zarr"
	data = numpy.random.default_rng(1).normal(size=(500, 700))
	group = zarr.open_group(at, mode="w")
	one = group.create_dataset("w/one", shape=(400, 700), chunks=(100, 100), dtype="f8")
	one[:] = data[:400]
	one.append(data[400:])
	one[::50] = 0
	group.attrs["step"] = 7
	zarr.consolidate_metadata(at)
	want = data.copy(); want[::50] = 0
	got = zarr.open_consolidated(at)
	assert got.attrs["step"] == 7 and numpy.array_equal(got["w/one"][:], want)
	with zarr.ZipStore(sys.argv[1] + "/z.zip", mode="w") as z:
	    zarr.copy_store(group.store, z)
	with zarr.ZipStore(sys.argv[1] + "/z.zip", mode="r") as z:
	    assert numpy.array_equal(zarr.open_group(z, mode="r")["w/one"][:], want)
	END
}

@test "transformers: the Trainer keeps its newest checkpoints, and goes on from the last" {
	on_each_store transformers <<-'END'
	import os, sys, torch
	from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
	from transformers.trainer_utils import get_last_checkpoint
	at = sys.argv[1] + "/hf"
	rows = [{"input_ids": torch.randint(0, 99, (8,)), "labels": torch.tensor(i % 2)} for i in range(32)]
	def trainer(steps):
	    torch.manual_seed(1)
	    m = BertForSequenceClassification(BertConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2,
	        num_attention_heads=2, intermediate_size=64))
	    return Trainer(m, TrainingArguments(at, max_steps=steps, save_steps=2, save_total_limit=2, no_cuda=True,
	        per_device_train_batch_size=4, report_to=[], disable_tqdm=True, save_safetensors=True), train_dataset=rows)
	trainer(6).train()
	assert sorted(os.listdir(at))[-2:] == ["checkpoint-4", "checkpoint-6"], os.listdir(at)
	t = trainer(10)
	t.train(resume_from_checkpoint=True)
	assert get_last_checkpoint(at).endswith("checkpoint-10")
	t.save_model(at + "/final")
	back = BertForSequenceClassification.from_pretrained(at + "/final").state_dict()
	assert all(torch.equal(v, back[k]) for k, v in t.model.state_dict().items())
	END
}

# is_available: FSDP of Debian's torch is not for its Python, and Lightning imports it.
@test "lightning: the Trainer keeps its newest checkpoints, and goes on from the last" {
	on_each_store lightning <<-'END'
	import os, sys, torch
	torch.distributed.is_available = lambda: False
	import pytorch_lightning as pl
	from pytorch_lightning.callbacks import ModelCheckpoint
	at = sys.argv[1] + "/lightning"
	class Line(pl.LightningModule):
	    def __init__(self):
	        super().__init__()
	        self.of = torch.nn.Linear(64, 256)
	    def training_step(self, batch, _):
	        return self.of(batch).pow(2).mean()
	    def configure_optimizers(self):
	        return torch.optim.Adam(self.parameters(), 0.01)
	def run(steps, **how):
	    pl.seed_everything(1)
	    keep = ModelCheckpoint(at, filename="{step}", every_n_train_steps=2, save_top_k=2,
	        monitor="step", mode="max", save_last=True)
	    m = Line()
	    t = pl.Trainer(max_steps=steps, callbacks=[keep], accelerator="cpu", logger=False,
	        enable_progress_bar=False, enable_model_summary=False, default_root_dir=at)
	    t.fit(m, torch.utils.data.DataLoader(torch.randn(64, 64), batch_size=4), **how)
	    return t, m
	def names():
	    return sorted(os.listdir(at))
	run(6)
	assert names() == ["last.ckpt", "step=4.ckpt", "step=6.ckpt"], names()
	t, m = run(10, ckpt_path=at + "/last.ckpt")
	assert t.global_step == 10
	assert names() == ["last.ckpt", "step=10.ckpt", "step=8.ckpt"], names()
	back = Line.load_from_checkpoint(at + "/last.ckpt").state_dict()
	assert all(torch.equal(v, back[k]) for k, v in m.state_dict().items())
	END
}

@test "orbax: a CheckpointManager saves, keeps two and restores" {
	on_each_store orbax <<-'END'
	import sys, numpy
	import orbax.checkpoint as ocp
	at = sys.argv[1] + "/orbax"
	tree = lambda s: {"a": numpy.arange(200000.0) + s, "b": {"c": numpy.full((300, 300), s)}}
	with ocp.CheckpointManager(at, options=ocp.CheckpointManagerOptions(max_to_keep=2)) as m:
	    for step in range(4):
	        m.save(step, args=ocp.args.StandardSave(tree(step)))
	    m.wait_until_finished()
	    assert m.all_steps() == [2, 3], m.all_steps()
	with ocp.CheckpointManager(at) as m:
	    got = m.restore(3, args=ocp.args.StandardRestore(tree(0)))
	want = tree(3)
	assert numpy.array_equal(got["a"], want["a"]) and numpy.array_equal(got["b"]["c"], want["b"]["c"])
	END
}
