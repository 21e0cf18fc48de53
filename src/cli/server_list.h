/*
 * The servers of a config, from values such as "redis://a,redis://b": addresses with blanks or commas
 * between them.
 */
#ifndef REDISLOCK_CLI_SERVER_LIST_H
#define REDISLOCK_CLI_SERVER_LIST_H

#include "base/status.h"
#include "cli/config.h"
#include "cli/setting.h"

/*
 * Stores the servers that a setting names in place of those that are there; a repeated --url adds to
 * them. Passwords are overwritten where the value came from, with a warning where others could have
 * read one. Returns as setting_store; after a failure there may be fewer servers than before.
 */
enum exit_status server_list_store(struct config *config, const struct setting *setting);

/* Wipes the servers, until there are none. `config->servers` itself stays, for the next ones. */
void server_list_wipe(struct config *config);

#endif
