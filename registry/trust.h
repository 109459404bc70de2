// SPDX-License-Identifier: Apache-2.0
/* Keys that signed images and that nodes no longer trust. */
#ifndef BOOTSEER_REGISTRY_TRUST_H
#define BOOTSEER_REGISTRY_TRUST_H

#define TRUST_REVOKED_MAX 10000 /* common/revoked_keys.h: nodes take no more */

#endif
