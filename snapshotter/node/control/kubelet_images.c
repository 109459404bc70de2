// SPDX-License-Identifier: Apache-2.0
/* Does the kubelet pull images by way of bootseer-snapshotter? */
#include <string.h>
#include <sys/socket.h>

#include "common/doctor.h"
#include "common/fs.h"
#include "net/unix_connect.h"
#include "snapshotter/node/control/kubelet.h"

#define CONFIG "/var/lib/kubelet/config.yaml"
/* kubeadm's flags win over the configuration */
#define FLAGS "/var/lib/kubelet/kubeadm-flags.env"
#define TEXT_MAX (1u << 20)
/* the program's name as the kernel truncates it */
#define PROGRAM "bootseer-snapsh"
#define CURE \
	"run bootseer-snapshotter with --image-service, and have the kubelet's " \
	"imageServiceEndpoint lead there (docs/kubernetes.md, 'Private images'); " \
	"all is well if this node has logins of its own for private images, or " \
	"no pod has any"

/* The path that `key` has in `text`, as unix:///PATH or PATH; NULL: there is none. */
static char *find_endpoint(const char *text, const char *key)
{
	const char *at = text ? strstr(text, key) : NULL;
	size_t len;

	if (!at)
		return NULL;
	at += strlen(key);
	at += strspn(at, "\"':= \t");
	if (strncmp(at, "unix://", 7) == 0)
		at += 7;
	len = strcspn(at, "\"' \t\r\n");
	return *at == '/' ? strndup(at, len) : NULL;
}

char *kubelet_image_service(const char *config, const char *flags)
{
	char *path = find_endpoint(flags, "--image-service-endpoint");

	return path ? path : find_endpoint(config, "\nimageServiceEndpoint");
}

/* Get the name of the program that listens at `path`, "" if there is none. */
static void get_listener_name(const char *path, char name[64])
{
	AUTO_CLOSE int fd = unix_connect(path, 0);
	AUTO_BUF comm = BUF_INIT;
	struct ucred peer;
	socklen_t len = sizeof(peer);
	char file[32];

	name[0] = '\0';
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return;
	(void)snprintf(file, sizeof(file), "/proc/%d/comm", peer.pid);
	if (fs_read_file(file, 63, &comm, NULL) == 0)
		(void)snprintf(name, 64, "%.*s", (int)strcspn(comm.data, "\n"),
			       comm.data);
}

void kubelet_check_images(json_t *list, bool has_secrets)
{
	AUTO_BUF config = BUF_INIT;
	AUTO_BUF flags = BUF_INIT;
	AUTO_FREE char *path = NULL;
	char name[64] = "";
	bool is_ours;

	if (fs_read_file(CONFIG, TEXT_MAX, &config, NULL) < 0)
		return;
	(void)!fs_read_file(FLAGS, TEXT_MAX, &flags, NULL);
	path = kubelet_image_service(config.data, flags.data);
	if (path)
		get_listener_name(path, name);
	is_ours = strcmp(name, PROGRAM) == 0;
	if (is_ours)
		doctor_add(list, "pods' logins", true, DOCTOR_ADVICE, CURE,
			   "the kubelet pulls by '%s'", path);
	else if (has_secrets)
		doctor_add(list, "pods' logins", true, DOCTOR_ADVICE, CURE,
			   "by pull secrets that the chart's node.pullSecrets "
			   "lists");
	else if (!path)
		doctor_add(list, "pods' logins", false, DOCTOR_ADVICE, CURE,
			   "pull secrets do not reach bootseerd: the kubelet "
			   "has no imageServiceEndpoint");
	else
		doctor_add(list, "pods' logins", false, DOCTOR_ADVICE, CURE,
			   "pull secrets do not reach bootseerd: %s at the "
			   "kubelet's imageServiceEndpoint '%s'",
			   *name ? "another program listens" : "nobody listens",
			   path);
}
