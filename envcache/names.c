// SPDX-License-Identifier: Apache-2.0
/* Names of objects in a store of environments. */
#include "envcache/names.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
void env_object_name(const char *folder, const struct digest *key,
		     char ret[ENV_NAME_ROOM])
{
	char hex[ENV_KEY_HEX];

	env_key_hex(key, hex);
	(void)snprintf(ret, ENV_NAME_ROOM, "%s/%s", folder, hex);
}

void env_blob_folder(const struct digest *key, const char *folder,
		     char ret[ENV_NAME_ROOM])
{
	char hex[ENV_KEY_HEX];

	env_key_hex(key, hex);
	(void)snprintf(ret, ENV_NAME_ROOM, ENV_DATA_FOLDER "/%s%s%s", hex,
		       folder ? "/" : "", folder ? folder : "");
}

int env_folder_new(char ret[ENV_FOLDER_ROOM], struct error *err)
{
	unsigned char id[16];

	if (getrandom(id, sizeof(id), 0) != sizeof(id))
		return error_set(err, EIO, "no random bytes");
	for (size_t i = 0; i < sizeof(id); i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", id[i]);
	return 0;
}
