// SPDX-License-Identifier: Apache-2.0
/* Commands of bootseer: one file each, with its option table. */
#ifndef BOOTSEER_CLI_COMMAND_H
#define BOOTSEER_CLI_COMMAND_H

#include "common/option.h"

struct command {
	const char *brief; /* a line of 'bootseer --help', at most 58 long */
	struct option_program program; /* name: "bootseer image convert" */
	size_t config_size;            /* size of the struct for the options */
	/* Check for mistakes that show in the command line alone, before any access to files or
	 * network; exit status 2.  May be NULL. */
	int (*check)(const void *config, char **args, struct error *err);
	/* Open what the operands name, for run(), which then owns it.  -EINVAL: a mistake in the
	 * command line alone.  May be NULL. */
	int (*open)(void *config, char **args, struct error *err);
	bool is_status; /* a result of run above 0 is the exit status */
	int failed;     /* exit status when run fails; 0: EXIT_FAILURE */
	/* `args` are the operands, NULL-terminated.  Results go to stdout. */
	int (*run)(const void *config, char **args, struct error *err);
};

extern const struct command image_convert_command;
extern const struct command image_convert_new_command;
extern const struct command image_inspect_command;
extern const struct command image_check_command;
extern const struct command image_sign_command;
extern const struct command image_verify_command;
extern const struct command image_ls_command;
extern const struct command image_rm_command;
extern const struct command image_mount_command;
extern const struct command image_umount_command;
extern const struct command image_record_command;
extern const struct command image_prefetch_command;
extern const struct command image_explain_command;
extern const struct command image_ready_command;
extern const struct command key_new_command;
extern const struct command key_show_command;
extern const struct command trace_push_command;
extern const struct command trace_pull_command;
extern const struct command trace_ls_command;
extern const struct command trace_show_command;
extern const struct command trace_merge_command;
extern const struct command trace_rm_command;
extern const struct command ckpt_cp_command;
extern const struct command ckpt_ls_command;
extern const struct command ckpt_stat_command;
extern const struct command ckpt_verify_command;
extern const struct command ckpt_rm_command;
extern const struct command ckpt_gc_command;
extern const struct command ckpt_adopt_command;
extern const struct command ckpt_mount_command;
extern const struct command ckpt_umount_command;
extern const struct command ckpt_status_command;
extern const struct command env_run_command;
extern const struct command env_key_command;
extern const struct command env_ls_command;
extern const struct command env_inspect_command;
extern const struct command env_diff_command;
extern const struct command env_verify_command;
extern const struct command env_rm_command;
extern const struct command env_umount_command;
extern const struct command env_socket_command;
extern const struct command env_prefetch_command;
extern const struct command env_pin_command;
extern const struct command env_unpin_command;
extern const struct command env_gc_command;
extern const struct command env_export_command;
extern const struct command env_import_command;
extern const struct command p2p_status_command;
extern const struct command node_status_command;
extern const struct command node_doctor_command;
extern const struct command node_gc_command;
extern const struct command node_fetch_command;
extern const struct command node_join_command;
extern const struct command node_leave_command;
extern const struct command job_run_command;
extern const struct command stage_begin_command;
extern const struct command stage_end_command;
extern const struct command stage_mark_command;
extern const struct command stage_run_command;
extern const struct command stage_send_command;
extern const struct command start_ls_command;
extern const struct command start_show_command;
extern const struct command start_compare_command;
extern const struct command start_watch_command;
extern const struct command start_checkpoints_command;
extern const struct command start_export_command;
extern const struct command ops_chains_command;
extern const struct command ops_cost_command;
extern const struct command ops_nodes_command;
extern const struct command ops_phases_command;
extern const struct command ops_precursors_command;
extern const struct command ops_watch_command;
extern const struct command ops_recover_command;
extern const struct command ops_report_command;
extern const struct command ops_restart_command;

#endif
