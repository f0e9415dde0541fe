"""What shows each row of the table of capabilities that the specifications and the order ask for.

    python -m tests.mission          each row and what shows it
    python -m tests.mission --run    runs these tests and prints the table anew: Y, divergence or no, and the counts

`--run` passes all other words to pytest, such as `-n 2`. A row is shown by tests, which are named by their node ids below
`tests`, or it is a difference that `divergences.py` records, whose own tests are run. A row of several tests needs all.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from .report_requirements import HERE, read_report

TIERS = "not nightly and not local_llm and not soak"  # the tests of the second tier, too


def checks(*names: str) -> tuple[str, ...]:
    """Checks of the conformance suite against our gateway, over a socket."""
    return tuple(f"conformance/test_suite.py::test_our_gateway_keeps_to_it[{name}]" for name in names)


def examples(*lines: int) -> tuple[str, ...]:
    """Examples of the newer SDK text, by the line of their fence."""
    return tuple(
        f"agent/test_specification_examples.py::test_the_example_runs[sdk-v0.4.md:{n}]" for n in lines
    )


# By section, the words of each row, and the tests that show it or the id of a recorded divergence.
TABLE: Mapping[str, Mapping[str, tuple[str, ...] | str]] = {
    "§2 goals": {
        "all participants see addressed traffic too": checks("to_addresses_and_does_not_hide"),
        "control by capabilities and proposals": checks(
            "a_right_to_propose_permits_no_request", "a_proposal_is_fulfilled_and_observed"
        ),
        "progressive automation (learn from decisions)": "P-9.4-2",
        "MCP tools and resources unchanged": (
            "bridge/test_mcp.py::test_results_and_errors_go_out_as_the_server_gave_them",
            "bridge/test_everything.py::test_the_reference_server_is_passed_on",
        ),
    },
    "§3 envelope": {
        "`protocol` mew/v0.4, else refused": checks("another_version_is_refused"),
        "`id` required, unique": (
            *checks("the_id_of_a_handle_is_taken_once"),
            "gateway/test_malformed.py::test_whatever_is_wrong_over_a_socket_is_one_error_to_its_sender_alone",
        ),
        "`ts`, `from` filled in / `from` checked": checks(
            "missing_members_are_completed_once", "a_foreign_from_is_refused"
        ),
        "`to` is an array": checks("members_have_their_types"),
        "`correlation_id` always an array": checks("members_have_their_types"),
        "`context` path": checks("members_have_their_types", "contexts_stay_apart"),
        "`payload` object": checks("members_have_their_types", "payloads_are_data"),
        "unknown members and kinds kept": (
            *checks("a_message_arrives_unchanged"),
            "space/test_core.py::test_an_unknown_kind_is_matched_and_routed_like_any_other",
        ),
        "not JSON, not an object": checks("one_message_is_one_json_object"),
        "the kinds of §3.1–§3.10, each sent once": (
            *checks("the_kinds_of_the_specification_are_passed_on"),
            "space/test_core.py::test_every_kind_of_the_table_that_a_participant_may_send_is_known",
        ),
    },
    "§3.1 MCP": {
        "request → response with correlation": (
            "sdk/test_participant.py::test_who_may_request_gets_the_answer_directly",
        ),
        "jsonrpc, id, method, params relayed unchanged": checks("a_message_arrives_unchanged"),
        "response without correlation (lazy gateway)": checks("payloads_are_data"),
        "notifications as mcp/request": (
            "sdk/test_participant.py::test_a_notification_has_no_answer",
            "sdk/test_discovery.py::test_who_says_that_its_tools_changed_is_asked_again_and_a_flood_of_that_is_one_request_a_second",
        ),
    },
    "§3.2 proposals": {
        "proposal as request payload": (
            *checks("a_proposal_is_fulfilled_and_observed"),
            "sdk/test_participant.py::test_who_may_only_propose_gets_the_answer_through_a_fulfilment",
        ),
        "fulfilment names the proposal": (
            "lab/test_lab.py::test_what_one_proposes_and_another_approves_is_done_and_all_of_it_is_in_the_log",
        ),
        "proposer observes outcome through broadcast": (
            *checks("a_proposal_is_fulfilled_and_observed"),
            "sdk/test_participant.py::test_who_may_only_propose_gets_the_answer_through_a_fulfilment",
        ),
        "several fulfil, first wins": (
            "lab/test_once.py::test_two_labs_a_policy_a_program_a_terminal_and_gates_execute_each_proposal_once",
            "sdk/test_executions.py::test_however_many_decide_at_once_each_proposal_is_executed_once_and_each_loser_is_told",
        ),
    },
    "§3.3 lifecycle": {
        "withdraw by the proposer": (
            "sdk/test_participant.py::test_withdrawing_a_call_ends_it_for_everybody",
        ),
        "withdraw by others changes nothing": (
            "sdk/test_participant.py::test_a_withdraw_by_somebody_else_changes_nothing",
        ),
        "withdraw needs correlation_id": (
            "sdk/test_participant.py::test_a_withdraw_that_names_no_proposal_changes_nothing_and_counts_as_malformed",
        ),
        "withdraw by a holder of the §4.1 proposal-only profile": (
            "sdk/test_taken_back.py::test_at_a_gateway_of_ours_it_is_withdrawn_and_said_to_be",
            "space/test_own.py::test_everybody_ends_what_it_said_itself",
        ),
        "reject with a reason; any reason text": (
            *checks("any_participant_with_the_right_may_reject"),
            "sdk/test_participant.py::test_the_first_rejection_ends_a_proposal_at_once",
        ),
        "fail-fast proposer": ("sdk/test_participant.py::test_the_first_rejection_ends_a_proposal_at_once",),
        "resilient proposer": (
            "sdk/test_participant.py::test_a_resilient_proposal_waits_for_somebody_else",
            "lab/test_once.py::test_a_resilient_proposal_stays_on_every_card_and_only_a_second_yes_approves_it",
        ),
        "withdraw on giving up: timeout": (
            "sdk/test_participant.py::test_a_proposal_that_times_out_is_withdrawn",
        ),
        "withdraw on giving up: rejection": (
            "sdk/test_participant.py::test_a_proposer_that_gives_up_on_a_rejection_withdraws_so_that_nobody_approves_it",
        ),
        "follow-up chat on a reject": (
            "agent/test_patterns.py::test_who_proposed_may_wait_for_the_explanation_of_a_rejection",
        ),
    },
    "§3.4 chat": {
        "text, format": ("sdk/test_participant.py::test_chat_is_said_acknowledged_and_cancelled",),
        "acknowledge": (
            "sdk/test_chats.py::test_an_acknowledgement_takes_a_message_off_ones_own_queue_and_tells_its_author",
        ),
        "cancel": (
            "sdk/test_chats.py::test_a_cancel_by_its_author_takes_a_message_off_and_says_so_to_who_works_on_it",
        ),
        "queue of unacknowledged, clear all / cancel all": (
            "sdk/test_chats.py::test_clearing_the_queue_sends_one_acknowledgement_an_entry",
            "sdk/test_chats.py::test_cancelling_the_queue_sends_one_cancel_an_entry",
        ),
        "the same in the terminal": (
            "cli/test_slash_verbs.py::test_messages_that_wait_are_acknowledged_one_by_one_by_sender_or_all",
            "cli/test_slash_verbs.py::test_cancel_takes_a_message_too",
        ),
    },
    "§3.5 reasoning": {
        "start correlates to its request": (
            "agent/test_agent.py::test_a_question_is_reasoned_about_in_one_context_and_answered_to_who_asked",
        ),
        "context = id of the start": (
            "agent/test_agent.py::test_a_question_is_reasoned_about_in_one_context_and_answered_to_who_asked",
        ),
        "thought, conclusion, answer with correlation": (
            "agent/test_worked_example.py::test_weather_in_tokyo_and_the_tip",
        ),
        "autonomous pattern": (
            "agent/test_patterns.py::test_reasoning_begins_without_a_request_and_may_end_without_a_conclusion",
        ),
        "cancel stops the sequence, no more thoughts": (
            "agent/test_agent.py::test_a_cancelled_reasoning_stops_withdraws_its_proposal_and_closes_its_stream",
            "agent/test_interruptions.py::test_wherever_it_waits_a_cancel_stops_it_within_the_step",
        ),
        "affordance in UIs": (
            "browser/test_reasoning_view.py::test_a_thinking_agent_is_followed_live_and_cancelled_on_the_wire",
            "cli/test_slash_verbs.py::test_reasoning_is_cancelled_by_its_participant_or_as_the_only_one",
            "lab/test_participant_verbs.py::test_reasoning_that_goes_on_is_cancelled",
        ),
        "stream beside reasoning": (
            "agent/test_agent.py::test_thoughts_are_mirrored_to_a_stream_of_their_own",
        ),
    },
    "§3.6 space": {
        "several isolated spaces on one port": (
            *checks("two_spaces_are_separate"),
            "cli/test_serve.py::test_two_spaces_are_served_on_one_port_and_nothing_crosses",
        ),
        "grant, cumulative; id = grant_id": checks("grants_add_up", "the_id_of_a_grant_is_its_name"),
        "new welcome to the recipient alone": (
            *checks("a_grant_brings_the_recipient_a_new_welcome"),
            "space/test_conversations.py::test_the_space_says_what_the_transcript_says[08-grants]",
        ),
        "grant-ack by the SDK": (
            "sdk/test_rights.py::test_a_grant_is_acknowledged_to_its_granter_once_it_is_held",
        ),
        "revoke by grant_id": checks("a_revoke_by_id_takes_the_grant", "a_revoke_takes_effect_at_once"),
        "revoke by pattern tools/*": (
            *checks("a_revoke_by_pattern_takes_all_that_match"),
            "space/test_grants.py::test_a_pattern_over_methods_takes_the_tools_and_leaves_the_resources",
        ),
        "grants only what one holds": checks(
            "nobody_grants_what_it_does_not_possess", "possession_is_a_proved_cover"
        ),
        "grant without capability / to unknown": (
            *checks("a_grant_needs_the_right_to_grant"),
            "space/test_conversations.py::test_the_space_says_what_the_transcript_says[08-grants]",
        ),
        "logical ↔ runtime ids": (
            *checks("a_logical_name_leads_to_the_runtime_id"),
            "sdk/test_rights.py::test_a_grant_by_the_logical_name_reaches_a_participant_with_another_id",
        ),
        "invite creates a token": checks("an_invite_makes_a_participant"),
        "invite-ack to the inviter alone": checks(
            "an_invite_makes_a_participant", "the_token_is_sent_to_the_inviter_alone"
        ),
        "already_exists": checks("a_known_name_is_not_invited_again"),
        "connection_url works": (
            "gateway/test_effects.py::test_who_was_invited_joins_with_the_token_at_the_address_that_the_inviter_was_told",
        ),
        "presence for the invited, without credentials": checks(
            "an_invite_makes_a_participant", "the_token_is_sent_to_the_inviter_alone"
        ),
        "email SHOULD be sent": "P-3.6.5-6",
        "kick: connection closed, token void, leave told": checks("a_kick_ends_the_membership"),
        "audit of space operations": (
            "log/test_audit.py::test_a_grant_is_followed_from_who_used_it_to_what_was_configured",
            "cli/test_cli.py::test_a_space_that_was_killed_is_served_again_replayed_and_audited",
        ),
    },
    "§3.7/3.8 system": {
        "presence join with capabilities, leave": checks("joins_and_leaves_are_announced_to_all"),
        "welcome you / participants / active_streams": checks(
            "the_welcome_comes_first_and_names_id_and_rights", "late_joiners_learn_of_streams"
        ),
        "late joiner gets all custom fields of a stream": checks("late_joiners_learn_of_streams"),
        "authorized_writers in the welcome": checks(
            "late_joiners_learn_of_streams", "a_granted_writer_writes"
        ),
        "violation: error, attempted_kind, your_capabilities": checks(
            "a_violation_is_explained_to_the_violator_alone"
        ),
        "system/* only from the gateway": checks("system_kinds_are_the_gateways_own"),
    },
    "§3.9 controls": {
        "pause: others refused, acks and cancels pass": checks("a_pause_holds_until_it_is_lifted"),
        "timeout_seconds": (
            "sdk/test_controls.py::test_it_resumes_by_itself_when_the_time_is_over_and_says_so",
            "sdk/test_controls.py::test_the_end_that_the_gateway_names_is_kept",
        ),
        "resume by others; own resume lifts nothing": checks("a_pause_holds_until_it_is_lifted"),
        "request-status, fields": (
            "sdk/test_telemetry.py::test_who_asks_gets_a_status_that_names_the_question",
            "sdk/test_telemetry.py::test_fields_limit_what_is_told_but_for_messages_in_context",
        ),
        "status with messages_in_context, tokens, max_tokens": (
            "sdk/test_telemetry.py::test_who_asks_gets_a_status_that_names_the_question",
        ),
        "proactive status near the limit": (
            "sdk/test_telemetry.py::test_crossing_the_soft_limit_is_told_once_and_again_only_after_falling_below",
            "agent/test_context_window.py::test_near_the_limit_a_status_is_sent_unasked",
        ),
        "forget direction, entries": ("sdk/test_controls.py::test_forgetting_is_reported_after_the_hook",),
        "compact → compact-done, skipped": (
            "sdk/test_controls.py::test_a_compaction_is_announced_done_and_answered",
            "sdk/test_controls.py::test_nothing_to_compact_is_said_too",
        ),
        "interim compacting / compacted": (
            "sdk/test_controls.py::test_a_compaction_is_announced_done_and_answered",
        ),
        "autonomous compaction told with headroom": (
            "agent/test_context_window.py::test_before_the_context_is_full_the_oldest_is_forgotten_and_both_is_said",
        ),
        "clear (without payload) → status 0": (
            "sdk/test_controls.py::test_after_a_clear_the_context_is_empty_with_and_without_a_payload",
        ),
        "restart": ("sdk/test_controls.py::test_a_restart_ends_what_is_open_and_then_reports",),
        "shutdown: acknowledge, leave, then refused": (
            *checks("a_shutdown_holds_until_it_joins_again"),
            "sdk/test_controls.py::test_a_shutdown_is_acknowledged_after_the_hooks_and_the_participant_leaves",
        ),
    },
    "§3.10 streams": {
        "request → open, whatever `to` says": checks("a_request_is_answered_by_an_open"),
        "direction required": (
            "sdk/test_specification_names.py::test_a_direction_that_is_no_word_of_the_specification_is_sent_by_none_of_our_verbs",
            "sdk/test_specification_names.py::test_a_stream_of_another_direction_is_delivered_and_told_to_those_who_join_later",
            "log/test_diagnose.py::test_a_planted_fault_is_found_and_nothing_else[without_direction]",
        ),
        "target, target_not_found": checks("targets_must_be_there", "targets_alone_get_the_frames"),
        "text and binary frames, framing kept": checks("a_frame_keeps_its_opcode", "boundaries_are_kept"),
        "write by others refused": checks("only_writers_write"),
        "grant / revoke write, idempotent, told to all": checks(
            "a_granted_writer_writes", "a_revoked_writer_writes_no_more"
        ),
        "transfer; former owner cannot write": checks("a_stream_is_transferred"),
        "errors stream_not_found, unauthorized, participant_not_found, invalid_operation": checks(
            "faulty_grants_are_refused", "faulty_revokes_are_refused", "faulty_transfers_are_refused"
        ),
        "close by owner, also by correlation to the open alone": (
            *checks("the_owner_closes_a_stream"),
            "space/test_streams.py::test_the_owner_closes_by_the_id_or_by_what_the_close_answers_and_no_frame_passes_after",
        ),
        "no frame after close": checks("the_owner_closes_a_stream"),
        "stream ends with its owner": checks("a_stream_ends_with_its_owner"),
    },
    "§4 security model": {
        "wildcards in kind, exact, nested payload": checks(
            "a_wildcard_covers_a_namespace",
            "an_exact_kind_is_that_kind_alone",
            "nested_patterns_bind_the_fields_they_name",
        ),
        "tool-specific `read_*`, monitoring `*/list`": checks(
            "nested_patterns_bind_the_fields_they_name", "a_read_only_set_lists_and_does_nothing_else"
        ),
        "JSONPath, `**`, lists, negation": checks(
            "the_pattern_language_has_no_undefined_forms",
            "a_star_stops_at_a_slash_but_not_at_the_end_of_a_kind",
        ),
        "regular expressions": (
            *checks("wildcards_expressions_and_paths"),
            "gateway/test_space_file.py::test_an_expression_that_other_gateways_search_anywhere_is_remarked_on",
            "test_pattern_help.py::test_each_row_of_the_page_matches_as_it_says",
        ),
        "participant validates, counts misbehaviour": (
            "sdk/test_participant.py::test_malformed_messages_are_dropped_and_counted",
        ),
    },
    "§5 API": {
        "GET /ws?space= with Bearer": checks("a_token_in_the_header_is_enough"),
        "join frame instead of a header": checks("a_join_frame_stands_for_the_header"),
        "wrong token, foreign space, none": (
            *checks("a_wrong_token_is_refused_before_anything_is_sent"),
            "gateway/test_sockets.py::test_unknown_token_and_unknown_space_are_told_alike",
            "gateway/test_sockets.py::test_without_a_token_silence_closes_the_socket",
        ),
        "token in the URL refused": ("gateway/test_sockets.py::test_a_token_in_the_address_opens_nothing",),
        "POST messages → id, status, timestamp": checks("a_posted_message_is_delivered"),
        "GET messages?since=": (
            *checks("the_history_holds_only_visible_messages"),
            "gateway/test_routes.py::test_who_polls_gets_each_message_once_whatever_time_it_claims",
        ),
        "HTTP enforces the same rules": checks(
            "http_has_the_same_rights", "the_token_must_be_that_of_the_path"
        ),
        "public / private / restricted spaces": "P-5.1-2",
        "capabilities change during a session": checks(
            "a_grant_gives_the_right", "a_revoke_takes_effect_at_once"
        ),
    },
    "§6–§10": {
        "checklist §8.1 by the own suite": (
            "conformance/test_suite.py::test_our_gateway_passes_every_row_that_can_be_seen",
        ),
        "§9.1–9.3 workflows": checks(
            "a_proposal_is_fulfilled_and_observed",
            "a_grant_gives_the_right",
            "a_read_only_set_lists_and_does_nothing_else",
        ),
        "§9.4 orchestrator that learns to approve": "P-9.4-2",
        "violations broadcast (optional)": "P-5.4-2",
        "proposal tracking object": (
            "agent/test_patterns.py::test_what_became_of_a_proposal_is_known_by_those_who_take_part_and_asked_of_no_gateway",
        ),
    },
    "Layer 1": {
        "constructor options": (
            *examples(90),
            "sdk/test_options.py::test_every_setting_of_the_specification_is_known_in_both_spellings",
        ),
        "options object, camelCase": "S-L1-1",
        "connect / disconnect": examples(90, 1220),
        "send(): void": ("sdk/test_specification_names.py::test_what_is_not_awaited_is_sent_all_the_same",),
        "on_connected, on_disconnected without arguments": (
            "sdk/test_specification_names.py::test_a_handler_gets_as_many_arguments_as_it_takes",
        ),
        "on_message, on_welcome, on_error": (
            "sdk/test_client.py::test_each_of_the_five_handlers_is_told_what_it_is_for_and_in_this_order",
        ),
        "five states": (
            "sdk/test_client_contract.py::test_after_a_break_identity_handlers_and_iterators_go_on",
        ),
        "events by name (`on('message')`)": (
            "sdk/test_specification_names.py::test_each_event_of_the_specification_is_heard_by_its_name",
        ),
        "reconnecting event, backoff, limit": (
            "sdk/test_client_contract.py::test_each_attempt_waits_twice_as_long_and_the_last_is_the_end",
            "sdk/test_client_contract.py::test_after_a_break_identity_handlers_and_iterators_go_on",
        ),
        "heartbeat": ("sdk/test_client_contract.py::test_the_heartbeat_finds_a_gateway_that_fell_silent",),
        "sendStreamData / stream/data/<id>": (
            "sdk/test_specification_names.py::test_events_of_streams_are_heard_by_name_and_texts_are_written",
        ),
        "partial envelopes": (
            *examples(1220),
            "sdk/test_client_contract.py::test_a_draft_is_completed_so_that_its_id_is_known",
        ),
    },
    "Join flow": {
        "discovery after welcome and presence": (
            "sdk/test_discovery.py::test_everybody_who_is_here_is_asked_and_everybody_who_joins",
        ),
        "staggered": ("sdk/test_discovery.py::test_many_are_asked_one_after_the_other",),
        "three attempts, growing delays": (
            "sdk/test_discovery.py::test_what_fails_is_repeated_after_5_10_and_15_seconds_and_a_slow_starter_is_found",
        ),
        "TTL, refresh, list_changed": (
            "sdk/test_discovery.py::test_a_list_is_asked_for_again_when_it_is_old_and_stands_meanwhile",
            "sdk/test_discovery.py::test_who_says_that_its_tools_changed_is_asked_again_and_a_flood_of_that_is_one_request_a_second",
        ),
        "slow starters, failure goes on": (
            "sdk/test_discovery.py::test_what_fails_is_repeated_after_5_10_and_15_seconds_and_a_slow_starter_is_found",
            "sdk/test_discovery.py::test_the_last_failure_is_a_warning_and_work_goes_on_with_the_others",
        ),
    },
    "Layer 2": {
        "MEWParticipant.connect/disconnect": (
            *examples(221),
            "sdk/test_specification_names.py::test_connect_and_start_are_one_method_whichever_is_replaced",
        ),
        "ParticipantOptions extends ClientOptions": (
            *examples(221),
            "sdk/test_specification_names.py::test_a_participant_and_an_agent_take_the_options_of_the_layers_below",
        ),
        "requestTimeout": ("sdk/test_settings.py::test_a_client_and_a_participant_are_made_of_them",),
        "registerTool object with execute": examples(366, 1235),
        "registerTool from a typed function": (
            "sdk/test_tools.py::test_a_typed_function_is_listed_as_an_mcp_tool",
            "sdk/test_participant.py::test_tools_and_resources_are_registered_under_the_specifications_names",
        ),
        "registerResource": (
            "sdk/test_specification_names.py::test_what_discovery_knows_stands_under_the_names_of_the_specification",
            "sdk/test_participant.py::test_tools_and_resources_are_registered_under_the_specifications_names",
        ),
        "tools/list, tools/call, resources/* answered": (
            *examples(1235),
            "sdk/test_participant.py::test_tools_and_resources_are_registered_under_the_specifications_names",
            "sdk/test_tools.py::test_resources_are_listed_and_read",
        ),
        "canSend incl. `!tools/call`": (
            *examples(281),
            "sdk/test_participant.py::test_can_send_judges_the_payload",
        ),
        "mcpRequest: request, else proposal, else error": (
            *examples(299),
            "sdk/test_participant.py::test_who_may_do_neither_is_told_what_would_help",
        ),
        "string or list of targets": (
            "sdk/test_participant.py::test_other_methods_are_routed_alike_and_give_the_plain_result",
        ),
        "positional timeout in ms": "S-L2-4",
        "chat(text, to)": ("sdk/test_participant.py::test_chat_is_said_acknowledged_and_cancelled",),
        "onMCPProposal/onMCPRequest/onParticipantJoin return a remover": (
            "sdk/test_participant.py::test_handlers_can_be_taken_back_and_joins_are_told",
            "sdk/test_participant.py::test_who_has_taken_back_a_handler_of_proposals_or_requests_is_told_no_more",
        ),
        "onReady/onShutdown as overridable hooks": (
            *examples(433),
            "sdk/test_specification_names.py::test_an_overridden_hook_is_called_and_the_method_still_adds_handlers",
        ),
        'error "Proposal rejected by X: reason"': (
            "sdk/test_participant.py::test_the_first_rejection_ends_a_proposal_at_once",
        ),
        "discovery states, no_tools vs failed": (
            *examples(378),
            "sdk/test_discovery.py::test_no_tools_is_told_from_a_discovery_that_failed",
        ),
        "getAvailableTools … waitForPendingDiscoveries": examples(418, 614),
        "acknowledgeChat / cancelChat": (
            "sdk/test_participant.py::test_chat_is_said_acknowledged_and_cancelled",
        ),
        "pauseState; sends refused while paused": (
            *examples(221),
            "sdk/test_controls.py::test_who_is_paused_is_told_by_whom_why_and_until_when_and_nothing_goes_out",
        ),
        "onForget/onClear/onRestart/onShutdown hooks": (
            "sdk/test_specification_names.py::test_an_overridden_hook_is_called_and_the_method_still_adds_handlers",
        ),
        "requestParticipantStatus, reportStatus, recordContextUsage, buildStatusPayload": (
            "sdk/test_specification_names.py::test_every_name_of_the_table_leads_somewhere",
            "agent/test_specification_examples.py::test_every_name_in_the_prose_is_one_of_an_agent_or_a_setting",
            "sdk/test_telemetry.py::test_who_asks_gets_a_status_that_names_the_question",
            "sdk/test_telemetry.py::test_a_report_goes_to_everybody",
            "sdk/test_telemetry.py::test_usage_keeps_running_totals_and_messages_in_context_is_always_there",
        ),
        "soft limit 90 %": (
            "sdk/test_telemetry.py::test_crossing_the_soft_limit_is_told_once_and_again_only_after_falling_below",
        ),
        "requestStream, bookkeeping, metadata": (
            "sdk/test_specification_names.py::test_every_name_of_the_table_leads_somewhere",
            "agent/test_specification_examples.py::test_every_name_in_the_prose_is_one_of_an_agent_or_a_setting",
            "sdk/test_streams.py::test_a_stream_is_requested_and_everybody_knows_all_of_it",
            "sdk/test_streams.py::test_a_stream_is_on_record_from_its_open_to_its_close_with_its_last_activity",
        ),
        "composition (ADR-cmp)": (
            "agent/test_patterns.py::test_an_agent_has_a_participant_and_that_has_a_client",
        ),
    },
    "Layer 3": {
        "AgentConfig (all 12 names)": (
            *examples(501),
            "agent/test_agent.py::test_every_option_of_the_specification_can_be_given",
        ),
        "… extends ParticipantOptions": (
            *examples(501),
            "sdk/test_specification_names.py::test_a_participant_and_an_agent_take_the_options_of_the_layers_below",
        ),
        "start / stop, addTool, addResource": (
            "agent/test_agent.py::test_it_starts_stops_and_offers_tools_and_resources_of_its_own",
        ),
        "participant/tool names, underscores for the API": (
            *examples(554),
            "agent/test_completions.py::test_tools_are_offered_under_names_that_an_api_takes_with_their_participant_in_the_description",
        ),
        "description with the participant": (
            *examples(554),
            "agent/test_agent.py::test_one_tool_name_of_two_participants_is_two_tools_and_each_says_whose",
        ),
        "ids without `_`": "S-L3-5",
        "waits for discoveries before reasoning": (
            *examples(614),
            "agent/test_agent.py::test_tools_that_are_being_discovered_are_waited_for",
        ),
        "ReAct example of the seed, message by message": (
            "agent/test_worked_example.py::test_weather_in_tokyo_and_the_tip",
        ),
        "native format": (
            *examples(924),
            "agent/test_worked_example.py::test_weather_in_tokyo_and_the_tip[native]",
        ),
        "scratchpad format": (
            *examples(955),
            "agent/test_worked_example.py::test_weather_in_tokyo_and_the_tip[scratchpad]",
        ),
        "prompts system/reason/act/respond with {input} {tools} {objective} {observation}": (
            *examples(994),
            "agent/test_prompts.py::test_every_phase_can_be_replaced",
        ),
        "conversationHistoryLength": (
            *examples(978),
            "agent/test_agent.py::test_the_conversation_before_is_in_the_prompt_only_when_asked_for",
        ),
        "maxIterations, errors as observations, unknown tool": (
            "agent/test_agent.py::test_the_loop_ends_at_max_iterations_and_says_so",
            "agent/test_agent.py::test_a_failing_tool_an_unknown_one_and_unfit_arguments_are_observations",
        ),
        "reasoningEnabled false": (
            "agent/test_agent.py::test_without_reasoning_nothing_of_it_is_sent_and_calls_correlate_to_the_question",
        ),
        "reason / act / prepareLLMTools / executeLLMToolCall overridable": (
            "agent/test_hooks.py::test_the_signatures_of_the_specification_itself_replace_the_methods",
            "agent/test_hooks.py::test_prepare_llm_tools_decides_which_tools_a_model_is_shown_and_may_call",
        ),
        "ensureContextHeadroom, 30 % buffer": (
            "agent/test_context_window.py::test_before_the_context_is_full_the_oldest_is_forgotten_and_both_is_said",
        ),
        "ChatResponseConfig with its defaults": (
            *examples(1351),
            "agent/test_attention.py::test_the_defaults_are_those_of_the_specification",
        ),
        "mention, @mention, addressed to another": (
            "agent/test_attention.py::test_its_name_or_id_in_the_text_is_a_mention",
            "agent/test_attention.py::test_what_is_addressed_to_others_or_within_others_reasoning_is_theirs",
        ),
        "LLM classification, threshold": (
            *examples(1391),
            "agent/test_agent.py::test_what_is_addressed_to_nobody_is_answered_where_the_model_is_sure",
            "agent/test_attention.py::test_only_a_yes_above_the_threshold_counts",
        ),
        "always responds when addressed": "S-CH-3",
        "autoRespond false": ("agent/test_agent.py::test_with_auto_respond_off_it_hears_and_says_nothing",),
        "rate limit": ("agent/test_agent.py::test_who_asks_without_end_is_told_so_and_not_answered",),
        "several agents do not both answer": (
            "agent/test_agent.py::test_of_several_agents_one_takes_what_is_addressed_to_nobody",
        ),
    },
    "Configuration, errors, testing": {
        "environment variables": (
            *examples(1104),
            "cli/test_cli.py::test_an_agent_of_another_process_answers_as_its_settings_say",
        ),
        "agent-config.yaml literally (thinkingEnabled, ${…})": (
            *examples(1114),
            "sdk/test_settings.py::test_the_file_of_the_specification_is_read_and_its_secret_filled_in",
        ),
        "JSON file with every ClientOption": (
            "sdk/test_settings.py::test_a_json_file_may_have_every_option_of_a_client",
        ),
        "MCP error codes": (
            "sdk/test_tools.py::test_a_wrong_request_is_a_json_rpc_error",
            "sdk/test_request_server.py::test_errors_are_answers_too",
        ),
        "schema validation before execution": (
            "sdk/test_tools.py::test_arguments_that_break_the_schema_are_listed_and_nothing_runs",
        ),
        "handler errors reach somebody": (
            "sdk/test_unheard_errors.py::test_a_failing_handler_is_shown_masked_where_nobody_listens",
            "sdk/test_unheard_errors.py::test_a_program_sees_it_on_stderr",
        ),
        "layers testable alone (mock socket, clock)": (
            "sdk/test_client_contract.py::test_a_draft_is_completed_so_that_its_id_is_known",
            "sdk/test_discovery.py::test_what_fails_is_repeated_after_5_10_and_15_seconds_and_a_slow_starter_is_found",
            "agent/test_agent.py::test_a_question_is_reasoned_about_in_one_context_and_answered_to_who_asked",
        ),
    },
    "Tools agents, seed 002": {
        "mode tools; interactive, autonomous stay in the file": (
            "tools_agent/test_agent_file.py::test_the_mode_is_what_the_file_says_or_what_its_older_marks_mean",
            "tools_agent/test_member.py::test_an_agent_of_another_mode_or_without_tools_is_not_served",
        ),
        "serverInfo.name/version, instructions": (
            "tools_agent/test_server.py::test_a_client_over_stdio_initializes_lists_and_calls",
        ),
        "definition name, description, parameters, prompt": (
            "tools_agent/test_agent_file.py::test_the_example_of_the_design_is_an_agent",
            "tools_agent/test_agent_file.py::test_a_tool_has_name_description_parameters_and_prompt",
        ),
        "JSON and YAML files": (
            "tools_agent/test_agent_file.py::test_saving_and_loading_gives_the_same_document_without_new_keys",
        ),
        "`{}`: parameters, {name}": (
            "tools_agent/test_template.py::test_the_prompt_of_the_design_is_filled_from_the_call",
            "tools_agent/test_template.py::test_name_is_the_tools_name_unless_a_parameter_is_called_so",
        ),
        "values are not templates again": (
            "tools_agent/test_template.py::test_a_value_goes_in_as_it_is_and_is_never_read_again",
        ),
        "string/number/integer/boolean/array/object, enum, default, examples, limits": (
            "tools_agent/test_schema.py::test_each_type_takes_its_own_keywords_and_refuses_those_of_the_others_by_path",
            "tools_agent/test_definition.py::test_every_fault_of_the_arguments_is_told_with_its_path",
        ),
        "tuple items, uniqueItems, additionalProperties schema, min/maxProperties": (
            "tools_agent/test_schema.py::test_each_type_takes_its_own_keywords_and_refuses_those_of_the_others_by_path",
            "tools_agent/test_schema.py::test_a_list_of_items_is_told_to_clients_as_json_schema_2020_12_has_it",
            "tools_agent/test_definition.py::test_every_fault_of_the_arguments_is_told_with_its_path",
        ),
        "nested objects": (
            "tools_agent/test_template.py::test_a_part_of_a_value_is_filled_in_and_a_missing_one_has_a_text",
        ),
        "MCP tools from definitions, schema unchanged": (
            "tools_agent/test_server.py::test_a_client_over_stdio_initializes_lists_and_calls",
            "tools_agent/test_definition.py::test_parameters_become_the_input_schema_and_name_and_description_are_kept",
        ),
        "stdio transport": (
            "tools_agent/test_server.py::test_a_client_over_stdio_initializes_lists_and_calls",
        ),
        "HTTP transport with a token": (
            "tools_agent/test_server.py::test_two_clients_at_once_have_sessions_of_their_own_over_http",
            "tools_agent/test_command.py::test_over_http_it_is_served_with_the_token_of_a_file_that_is_made_once_and_told",
            "tools_agent/test_home.py::test_a_server_at_a_url_is_used_as_a_program_is_and_its_header_is_shown_nowhere",
        ),
        "session per call, isolated": (
            "tools_agent/test_executor.py::test_two_calls_at_once_have_contexts_of_their_own_and_see_nothing_of_each_other",
        ),
        "toolPermission never / tool / always": (
            "tools_agent/test_executor.py::test_only_tools_that_need_no_permission_are_offered",
        ),
        "automatic execution, several turns": (
            "tools_agent/test_executor.py::test_tools_are_called_without_approval_over_turns_and_their_results_go_back",
        ),
        "text of the answer as result; errors as isError": (
            "tools_agent/test_member.py::test_a_call_is_answered_with_the_same_id_correlated_and_its_session_with_the_call",
            "tools_agent/test_executor.py::test_what_a_model_fails_at_is_an_error_result_that_says_what",
        ),
        "unknown tool, missing arguments": (
            "tools_agent/test_server.py::test_a_client_over_stdio_initializes_lists_and_calls",
            "tools_agent/test_executor.py::test_arguments_that_do_not_fit_are_told_in_one_result_before_any_prompt",
        ),
        "loader validates, each fault with its place": (
            "tools_agent/test_agent_file.py::test_all_faults_of_a_file_are_told_at_once_each_with_its_place",
        ),
        "saved back with unknown keys": (
            "tools_agent/test_agent_file.py::test_saving_and_loading_gives_the_same_document_without_new_keys",
        ),
        "builder of parameters": (
            "browser/test_workshop_view.py::test_a_tool_is_built_and_saved_with_all_that_others_wrote",
            "views/models/test_workshop_model.py::test_each_keyword_is_read_as_its_type_says",
            "views/models/test_workshop_model.py::test_the_schema_and_the_builder_show_the_same",
        ),
        "prompt editor: highlighting, reference check": (
            "browser/test_workshop_view.py::test_a_tool_is_built_and_saved_with_all_that_others_wrote",
        ),
        "live preview, missing as {param}, read-only, monospace": (
            "browser/test_workshop_view.py::test_a_test_runs_as_the_agent_is_served_and_shows_each_call",
            "views/test_workshop.py::test_a_preview_is_checked_against_the_schema",
        ),
        "test form from the schema, required, validation": (
            "browser/test_workshop_view.py::test_a_test_runs_as_the_agent_is_served_and_shows_each_call",
            "browser/test_tools_view.py::test_no_choice_is_made_for_a_person_and_what_has_a_default_may_be_left_out",
        ),
        "test shows calls, results, answer (seed: a chat tab)": (
            "browser/test_workshop_view.py::test_a_test_runs_as_the_agent_is_served_and_shows_each_call",
            "views/test_workshop.py::test_a_test_gives_the_history_and_the_answer_and_keeps_the_servers",
        ),
        "joins a space as participant": (
            "tools_agent/test_command.py::test_it_joins_a_space_elsewhere_and_answers_there",
            "lab/test_tools_agent_seat.py::test_an_agent_file_is_seated_with_its_servers_and_called_by_everybody",
        ),
        "future: context, versions, dependencies, permissions, history": (
            "tools_agent/test_executor.py::test_a_call_goes_on_with_the_conversation_of_an_earlier_one_of_the_same_caller_only",
            "tools_agent/test_member.py::test_a_listed_tool_names_its_version_as_its_results_do",
            "tools_agent/test_member.py::test_a_tool_is_listed_while_what_it_needs_is_offered_and_each_change_is_told",
            "tools_agent/test_member.py::test_only_the_listed_callers_may_call_a_tool_and_the_model_is_told_who_calls",
            "tools_agent/test_executor.py::test_each_call_stands_in_the_history_refused_ones_too",
            "lab/test_tools_agent_seat.py::test_a_call_of_the_log_is_made_again_and_a_change_of_its_tool_is_told",
        ),
        "future: result caching": (
            "tools_agent/test_result_cache.py::test_over_the_wire_a_hit_is_an_answer_like_any_other_and_carries_no_receipt",
            "tools_agent/test_result_cache.py::test_an_equal_call_gets_the_result_of_before_and_is_told_so",
            "tools_agent/test_result_cache.py::test_nothing_is_kept_where_a_needed_tool_is_not_listed_as_read_only",
        ),
    },
    "The order": {
        "`%load_ext mew_lab`, `%unload_ext`": (
            "notebook/test_extension.py::test_unloading_leaves_the_shell_as_it_was",
        ),
        "`%mew connect`": (
            "browser/test_windows.py::test_two_kernels_on_one_space_see_whose_decision_it_was",
            "notebook/test_magics.py::test_connect_asks_for_the_token_without_echo",
        ),
        "31 sub-commands, help, completion, near miss": (
            "notebook/test_magics.py::test_every_sub_command_has_a_rule_and_a_call_that_is_tested",
            "notebook/test_magics.py::test_a_sub_command_is_one_call_and_gives_what_it_gives",
            "notebook/test_magics.py::test_help_lists_every_sub_command_and_a_question_mark_shows_it",
            "notebook/test_completion.py::test_a_tab_offers_the_sub_commands_and_nothing_else",
            "notebook/test_magics.py::test_a_mistake_is_one_line_without_a_traceback",
        ),
        "live tables of envelopes, stream viewers, approval buttons": (
            "browser/test_feed_view.py::test_rows_are_chosen_opened_followed_copied_and_saved",
            "browser/test_streams_view.py::test_a_stream_is_read_as_what_it_is_or_as_one_wishes",
            "browser/test_approvals_click.py::test_a_click_approves_while_the_cell_awaits",
        ),
        "pandas log, captured sessions": (
            "log/test_log.py::test_the_peers_folder_is_one_log",
            "log/test_captured.py::test_a_capture_tells_who_proposed_who_decided_and_what_was_executed",
        ),
        "whole spaces in a kernel": (
            "notebook/test_waiting.py::test_run_all_of_thirty_cells_that_mix_magics_and_awaits_finishes",
            "notebooks/test_lessons.py::test_the_lessons_give_what_they_show_in_any_time_zone[Asia/Kathmandu]",
        ),
        "nest-asyncio": (
            "notebook/test_nested_loops.py::test_asyncio_run_and_a_lab_both_work_once_it_is_applied",
            "notebook/test_nested_loops.py::test_a_cell_that_calls_asyncio_run_keeps_its_traceback_and_is_told_once_what_to_write",
        ),
        "nbval lessons": (
            "notebooks/test_lessons.py::test_nbval_runs_as_typed_and_leaves_nothing_in_the_checkout",
        ),
        "binder/": ("test_binder.py",),
        "openai package, any compatible server": (
            "agent/test_completions.py::test_text_comes_piece_by_piece_however_the_bytes_are_cut",
            "agent/test_completions.py::test_what_was_called_and_answered_goes_out_in_the_native_format",
            "agent/test_completions.py::test_a_schema_is_asked_for_and_tools_are_not_offered",
            "agent/test_completions.py::test_a_wrong_key_says_so_at_once",
            "agent/test_completions.py::test_a_server_in_trouble_is_asked_three_times",
        ),
        "websockets, pydantic, ipykernel, ipywidgets": (
            "test_house.py::test_the_libraries_that_were_ordered_are_the_ones_that_are_used",
        ),
        "top level as ordered": (
            "test_house.py::test_the_top_level_has_a_place_for_each_thing_and_nothing_else",
        ),
    },
}


def tests_of(shown: tuple[str, ...] | str) -> tuple[str, ...]:
    """The node ids of what shows a row: of a divergence, of the tests that pin it."""
    if isinstance(shown, str):
        return read_report().shown.get(("divergence", shown), ())
    return tuple(f"tests/{one}" for one in shown)


def verdict(shown: tuple[str, ...] | str, outcomes: Mapping[str, str]) -> str:
    """`Y` or `divergence` where each of its tests ran and each of their cases passed, else `no`."""

    def passed(test: str) -> bool:
        own = {
            told for id, told in outcomes.items() if id == test or id.startswith((f"{test}[", f"{test}::"))
        }
        return own == {"passed"}

    tests = tests_of(shown)
    if not tests or not all(map(passed, tests)):
        return "no"
    return "divergence" if isinstance(shown, str) else "Y"


def lines_of_table(outcomes: Mapping[str, str] | None) -> Iterator[str]:
    """The table as Markdown, with the verdicts where the tests were run, then the counts."""
    counts: Counter[str] = Counter()
    for section, rows in TABLE.items():
        yield from ("", f"*{section}*", "", "| capability | | shown by |", "|---|---|---|")
        for words, shown in rows.items():
            told = verdict(shown, outcomes) if outcomes is not None else ""
            counts[told] += 1
            recorded = f"divergence {shown}: " if isinstance(shown, str) else ""
            yield f"| {words} | {told} | {recorded}{', '.join(tests_of(shown))} |"
    yield ""
    named = [f"{counts[word]} {word}" for word in ("Y", "divergence", "no")] if outcomes is not None else []
    yield ", ".join([f"{counts.total()} rows", *named])


class Outcomes:
    """A plugin of pytest that keeps what became of each test."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed" or (report.when == "call" and report.nodeid not in self.of):
            self.of[report.nodeid] = report.outcome


def main(arguments: list[str]) -> int:
    """Prints the table; 1 when a row that was run is neither shown nor a divergence."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--run", action="store_true", help="run the tests; other words go to pytest")
    options, more = parser.parse_known_args(arguments)
    if not options.run:
        print(*lines_of_table(None), sep="\n")
        return 0
    outcomes = Outcomes()
    named = {test for rows in TABLE.values() for shown in rows.values() for test in tests_of(shown)}
    pytest.main(["-m", TIERS, "--rootdir", str(HERE.parent), "-q", *more, *sorted(named)], plugins=[outcomes])
    lines = list(lines_of_table(outcomes.of))
    print(*lines, sep="\n")
    return 0 if lines[-1].endswith(", 0 no") else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
