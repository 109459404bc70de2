// SPDX-License-Identifier: Apache-2.0
/* YAML by libyaml. An alias becomes a copy of its value, so copies count towards the limit. */
#include "objects/yaml_json.h"

#include <errno.h>
#include <yaml.h>

#include "common/bounded_json.h"

struct yaml_reading {
	yaml_document_t *document;
	unsigned int n_values;
};

static json_t *read_node(struct yaml_reading *r, int index, unsigned int depth);

static json_t *read_list(struct yaml_reading *r, const yaml_node_t *node,
			 unsigned int depth)
{
	json_t *list = json_array();

	for (const yaml_node_item_t *i = node->data.sequence.items.start;
	     list && i < node->data.sequence.items.top; i++) {
		if (json_array_append_new(list, read_node(r, *i, depth)) == 0)
			continue;
		json_decref(list);
		list = NULL;
	}
	return list;
}

static json_t *read_object(struct yaml_reading *r, const yaml_node_t *node,
			   unsigned int depth)
{
	json_t *object = json_object();

	for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
	     object && p < node->data.mapping.pairs.top; p++) {
		const yaml_node_t *key =
			yaml_document_get_node(r->document, p->key);
		const char *name =
			key && key->type == YAML_SCALAR_NODE
				? (const char *)key->data.scalar.value
				: NULL;

		if (name &&
		    json_object_set_new(object, name,
					read_node(r, p->value, depth)) == 0)
			continue;
		json_decref(object);
		object = NULL;
	}
	return object;
}

/* NULL: too large, too deep, or out of memory. */
static json_t *read_node(struct yaml_reading *r, int index, unsigned int depth)
{
	const yaml_node_t *node = yaml_document_get_node(r->document, index);

	if (!node || depth >= YAML_DEPTH_MAX || ++r->n_values > YAML_VALUES_MAX)
		return NULL;
	switch (node->type) {
	case YAML_SCALAR_NODE:
		return json_stringn((const char *)node->data.scalar.value,
				    node->data.scalar.length);
	case YAML_SEQUENCE_NODE:
		return read_list(r, node, depth + 1);
	case YAML_MAPPING_NODE:
		return read_object(r, node, depth + 1);
	default:
		return NULL;
	}
}

static int load_yaml(yaml_parser_t *parser, json_t **ret, struct error *err)
{
	yaml_document_t document;
	struct yaml_reading r = { .document = &document };

	if (!yaml_parser_load(parser, &document))
		return error_set(err, EINVAL, "line %zu is not YAML: %s",
				 parser->problem_mark.line + 1,
				 parser->problem ? parser->problem
						 : "no memory");
	/* An empty document has no first node. */
	*ret = read_node(&r, 1, 0);
	yaml_document_delete(&document);
	if (json_is_object(*ret))
		return 0;
	json_decref(*ret);
	return error_set(err, EINVAL,
			 "it is no object of at most %u values, %u deep",
			 YAML_VALUES_MAX, YAML_DEPTH_MAX);
}

int yaml_json_load(const void *text, size_t len, json_t **ret,
		   struct error *err)
{
	const char *c = text;
	yaml_parser_t parser;
	size_t blank = 0;
	int rc;

	while (blank < len && (c[blank] == ' ' || c[blank] == '\t' ||
			       c[blank] == '\n' || c[blank] == '\r'))
		blank++;
	if (blank < len && c[blank] == '{')
		return bounded_json_load(text, len, "it", ret, err);
	if (!yaml_parser_initialize(&parser))
		return error_nomem(err);
	yaml_parser_set_input_string(&parser, text, len);
	rc = load_yaml(&parser, ret, err);
	yaml_parser_delete(&parser);
	return rc;
}
