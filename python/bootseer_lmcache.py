# SPDX-License-Identifier: Apache-2.0
"""LMCache's remote storage plugin over bootseer.KVCache.

    remote_storage_plugins: ["bootseer"]
    extra_config:
      remote_storage_plugin.bootseer.module_path: bootseer_lmcache
      remote_storage_plugin.bootseer.class_name: BootseerConnectorAdapter
      remote_storage_plugin.bootseer.group_socket: /run/ckpt.ranks

vLLM and SGLang come to it by LMCache's own connectors.
"""
import asyncio
import json
import struct

import torch
from lmcache.v1.memory_management import MemoryFormat
from lmcache.v1.storage_backend.connector import ConnectorAdapter
from lmcache.v1.storage_backend.connector.base_connector import RemoteConnector

import bootseer_kv

__all__ = ["BootseerConnectorAdapter", "BootseerConnector"]

_TYPE = "bootseer"


class BootseerConnectorAdapter(ConnectorAdapter):
    """plugin://bootseer, and bootseer:// of LMCache before there were plugins."""

    def __init__(self):
        super().__init__("bootseer://")

    def can_parse(self, url):
        if url.startswith("plugin://"):
            return url[len("plugin://"):].partition(".")[0] == _TYPE
        return url.startswith("bootseer://")

    def create_connector(self, context):
        name = getattr(context, "plugin_name", None) or _TYPE
        extra = getattr(context.config, "extra_config", None) or {}
        return BootseerConnector(context.config, context.metadata, context.local_cpu_backend,
                                 extra.get("remote_storage_plugin.%s.group_socket" % name))


class BootseerConnector(RemoteConnector):
    """A chunk is a block: its shape, type and format in a line of JSON, then its bytes.

    LMCache's keys name model, world size, rank and the hash of the chunk's prefix.
    """

    def __init__(self, config, metadata, local_cpu_backend, address=None):
        try:
            super().__init__(config, metadata)
        except TypeError:
            super().__init__()
        self._local = local_cpu_backend
        self._kv = bootseer_kv.KVCache("lmcache", address)

    def _load(self, key):
        block = self._kv.get(key.to_string())
        if block is None:
            return None
        (n,) = struct.unpack_from("<I", block)
        head = json.loads(bytes(block[4:4 + n]))
        chunk = self._local.allocate(torch.Size(head["shape"]), getattr(torch, head["dtype"]),
                                     MemoryFormat[head["format"]])
        if chunk is not None:
            memoryview(chunk.byte_array).cast("B")[:] = block[4 + n:]
        return chunk

    def _save(self, key, chunk):
        head = json.dumps({"shape": list(chunk.get_shape()),
                           "dtype": str(chunk.get_dtype()).rpartition(".")[2],
                           "format": chunk.get_memory_format().name}).encode()
        self._kv.put(key.to_string(), [struct.pack("<I", len(head)), head, chunk.byte_array])

    async def exists(self, key):
        return await asyncio.to_thread(self.exists_sync, key)

    def exists_sync(self, key):
        return self._kv.has(key.to_string())

    async def get(self, key):
        return await asyncio.to_thread(self._load, key)

    async def put(self, key, memory_obj):
        await asyncio.to_thread(self._save, key, memory_obj)

    def support_batched_get(self):
        return True

    async def batched_get(self, keys):
        return list(await asyncio.gather(*(self.get(key) for key in keys)))

    async def list(self):
        # The names that the store has do not tell the keys.
        return []

    async def close(self):
        await asyncio.to_thread(self._kv.close)
