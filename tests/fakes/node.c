// SPDX-License-Identifier: Apache-2.0
/*
 * A bootseerd that serves prepared folders: fake-node SOCKET DIR.
 *
 * DIR/images.json  a list of images: "ref" and "manifest" (a question needs to
 *                  match one of them), "id", "chain_ids", "tree" (folder that
 *                  a mount gives), "layers" (folders), "scope" (prefix of
 *                  repositories; "" when it is left out), "config" (what
 *                  image.record gives), "starts" (what image.explain gives)
 * DIR/calls        one line for each call is appended: method and parameters
 * DIR/users        what image.users has, a line each; none while it is not there
 * DIR/fault        "METHOD ERRNO MESSAGE" while the file is there: the method
 *                  fails; "hang" instead of a number: it never answers calls
 *                  whose parameters have MESSAGE, as a text, in them;
 *                  "close": it ends instead of an answer, as a bootseerd that is
 *                  killed.  "once" before either: the file is removed then
 *
 * It says "ready" when it listens.  It forks for each connection, so that a call
 * that hangs holds up no other.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/error.h"
#include "common/fs.h"
#include "net/control.h"
#include "net/httpd_head.h"

static const char *dir;

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static void note_call(const struct control_request *r)
{
	AUTO_FREE char *params = json_dumps(r->params, JSON_SORT_KEYS);
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF line = BUF_INIT;
	int fd;

	if (buf_printf(&path, "%s/calls", dir) < 0 ||
	    buf_printf(&line, "%s %s\n", r->method, params) < 0)
		die("calls");
	fd = open(path.data, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, line.data, line.len) != (ssize_t)line.len)
		die("calls");
	close(fd);
}

/* What DIR/fault orders for this method. */
static int check_fault(const struct control_request *r, struct error *err)
{
	AUTO_FREE char *params = json_dumps(r->params, 0);
	AUTO_BUF path = BUF_INIT;
	AUTO_BUF text = BUF_INIT;
	char name[64], what[16], message[128] = "";
	int code;

	if (buf_printf(&path, "%s/fault", dir) < 0)
		die("fault");
	if (access(path.data, F_OK) < 0)
		return 0;
	if (fs_read_file(path.data, 4096, &text, err) < 0 ||
	    sscanf(text.data, "%63s %15s %127[^\n]", name, what, message) < 2)
		die("fault");
	if (strcmp(name, r->method) != 0)
		return 0;
	if (strcmp(what, "once") == 0) {
		(void)unlink(path.data);
		(void)sscanf(text.data, "%*s %*s %15s %127[^\n]", what,
			     message);
	}
	if (strcmp(what, "close") == 0)
		exit(EXIT_SUCCESS);
	if (strcmp(what, "hang") == 0 && !strstr(params ? params : "", message))
		return 0;
	while (strcmp(what, "hang") == 0)
		pause();
	code = atoi(what);
	return error_set(err, code, "%s", message);
}

static json_t *load_images(void)
{
	AUTO_BUF path = BUF_INIT;
	json_error_t why;
	json_t *list;

	if (buf_printf(&path, "%s/images.json", dir) < 0)
		die("images.json");
	list = json_load_file(path.data, 0, &why);
	if (!list) {
		fprintf(stderr, "images.json: %s\n", why.text);
		exit(EXIT_FAILURE);
	}
	return list;
}

static bool same(json_t *a, const char *key_a, json_t *b, const char *key_b)
{
	json_t *x = json_object_get(a, key_a), *y = json_object_get(b, key_b);

	return x && y && json_equal(x, y);
}

/* Borrowed from `list`. */
static json_t *find_image(json_t *list, json_t *params)
{
	json_t *image;
	size_t i;

	json_array_foreach(list, i, image)
	{
		if (same(image, "id", params, "id") ||
		    same(image, "manifest", params, "manifest") ||
		    (!json_object_get(params, "manifest") &&
		     same(image, "ref", params, "ref")))
			return image;
	}
	return NULL;
}

static int copy_tree(const char *from, const char *to)
{
	AUTO_BUF source = BUF_INIT;
	int status;
	pid_t pid;

	if (buf_printf(&source, "%s/.", from) < 0)
		return -ENOMEM;
	pid = fork();
	if (pid == 0) {
		execlp("cp", "cp", "-a", source.data, to, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
		return -EIO;
	return 0;
}

/* Start 7, which is ready after 1234 ms. */
static json_t *record(json_t *image)
{
	AUTO_FREE char *config =
		json_dumps(json_object_get(image, "config"), 0);

	return json_pack("{s:O, s:i, s:s}", "path",
			 json_object_get(image, "tree"), "start", 7, "config",
			 config ? config : "");
}

/* The images, each with its reference as its name. */
static json_t *status(json_t *all)
{
	json_t *list = json_array(), *image;
	size_t i;

	json_array_foreach(all, i, image)
	{
		json_t *ref = json_object_get(image, "ref");

		(void)json_array_append_new(
			list,
			json_pack("{s:O, s:O, s:O, s:[O]}", "id",
				  json_object_get(image, "id"), "manifest",
				  json_object_get(image, "manifest"), "name",
				  ref, "names", ref));
	}
	return json_pack("{s:o}", "images", list);
}

static json_t *users(void)
{
	json_t *list = json_array();
	AUTO_BUF path = BUF_INIT;
	char line[256];
	AUTO_FCLOSE FILE *f = NULL;

	if (buf_printf(&path, "%s/users", dir) < 0)
		die("users");
	f = fopen(path.data, "re");
	while (f && fscanf(f, "%255s", line) == 1)
		(void)json_array_append_new(list, json_string(line));
	return json_pack("{s:o}", "users", list);
}

/* How far the image is trusted: everywhere unless images.json says a prefix. */
static const char *scope_of(json_t *image)
{
	const char *scope = json_string_value(json_object_get(image, "scope"));

	return scope ? scope : "";
}

static json_t *run(const struct control_request *r, json_t *all, json_t *image,
		   struct error *err)
{
	if (strcmp(r->method, "image.umount") == 0)
		return json_pack("{s:i}", "released", 1);
	if (strcmp(r->method, "image.users") == 0)
		return users();
	if (strcmp(r->method, "node.status") == 0)
		return status(all);
	if (strcmp(r->method, "start.ready") == 0)
		return json_pack("{s:i}", "ready_ms", 1234);
	if (strcmp(r->method, "start.end") == 0)
		return json_object();
	if (!image) {
		error_set(err, ENOENT, "the fake has no such image");
		return NULL;
	}
	if (strcmp(r->method, "image.prepare") == 0)
		return json_pack("{s:O, s:O, s:O, s:s, s:s}", "id",
				 json_object_get(image, "id"), "manifest",
				 json_object_get(image, "manifest"),
				 "chain_ids",
				 json_object_get(image, "chain_ids"), "source",
				 "node", "scope", scope_of(image));
	if (strcmp(r->method, "image.mount") == 0)
		return json_pack("{s:O, s:s, s:s}", "path",
				 json_object_get(image, "tree"), "mode", "lazy",
				 "scope", scope_of(image));
	if (strcmp(r->method, "image.record") == 0)
		return record(image);
	if (strcmp(r->method, "image.explain") == 0)
		return json_pack("{s:O}", "starts",
				 json_object_get(image, "starts"));
	if (strcmp(r->method, "start.begin") == 0)
		return json_pack("{s:i, s:i}", "start", 1, "waited_ms", 0);
	if (strcmp(r->method, "layer.apply") == 0) {
		json_t *layer =
			json_array_get(json_object_get(image, "layers"),
				       (size_t)json_integer_value(
					       json_object_get(r->params,
							       "layer")));

		if (layer &&
		    copy_tree(json_string_value(layer),
			      json_string_value(
				      json_object_get(r->params, "dir"))) == 0)
			return json_pack("{s:i}", "bytes", 0);
		error_set(err, EIO, "the fake cannot copy the layer");
		return NULL;
	}
	error_set(err, ENOSYS, "the fake knows no %s", r->method);
	return NULL;
}

static void answer(const char *path, const char *body, size_t len,
		   struct buf *out)
{
	struct control_request r = { .root = NULL };
	struct error err = ERROR_INIT, why = ERROR_INIT;
	AUTO_JSON *images = load_images();
	AUTO_JSON *result = NULL;
	int rc = control_call_parse(path, body, len, &r, &err);

	if (rc == 0) {
		note_call(&r);
		rc = check_fault(&r, &err);
	}
	if (rc == 0)
		result = run(&r, images, find_image(images, r.params), &err);
	rc = result ? control_reply_format(result, out, &why)
		    : control_error_format(&err, out, &why);
	if (rc < 0)
		die("reply");
	control_request_fini(&r);
}

/* Answer the request that `in` begins with; false: the rest of it has to come. */
static bool serve_request(int fd, struct buf *in)
{
	const char *end = memmem(in->data, in->len, "\r\n\r\n", 4);
	AUTO_BUF text = BUF_INIT, head = BUF_INIT, body = BUF_INIT;
	struct httpd_head h;
	size_t len;

	if (!end)
		return false;
	len = (size_t)(end + 4 - in->data);
	if (buf_append(&text, in->data, len) < 0 ||
	    httpd_head_parse(text.data, len, &h, NULL) != 0)
		die("request");
	if (in->len - len < h.content_length)
		return false;
	answer(h.path, end + 4, h.content_length, &body);
	if (buf_printf(&head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
		       body.len) < 0 ||
	    fs_write_full(fd, head.data, head.len) < 0 ||
	    fs_write_full(fd, body.data, body.len) < 0)
		exit(EXIT_SUCCESS); /* the client left */
	buf_reset(in);
	return true;
}

static void serve(int fd)
{
	AUTO_BUF in = BUF_INIT;
	ssize_t n;

	for (;;) {
		if (buf_reserve(&in, 65536) < 0)
			die("memory");
		n = read(fd, in.data + in.len, 65536);
		if (n <= 0)
			return;
		in.len += (size_t)n;
		(void)serve_request(fd, &in);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;

	if (argc != 3 || strlen(argv[1]) >= sizeof(addr.sun_path)) {
		fprintf(stderr, "usage: fake-node SOCKET DIR\n");
		return 2;
	}
	dir = argv[2];
	strcpy(addr.sun_path, argv[1]);
	signal(SIGCHLD, SIG_IGN);
	(void)unlink(addr.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    listen(fd, 64) < 0)
		die(argv[1]);
	puts("ready");
	fflush(stdout);
	while ((peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		if (fork() == 0) {
			signal(SIGCHLD, SIG_DFL);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			serve(peer);
			_exit(0);
		}
		close(peer);
	}
	die("accept");
}
