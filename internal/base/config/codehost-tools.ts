// The brokered code-host tools (docs/reference/compile.md#tools): the names of the provider's public MCP server that an
// installation token can serve, as of 2026-08-20, and those that the proxy implements itself. Tools about one's own account
// (stars, notifications, gists, identity) are left out: a session acts as an installation, not as a person. What stands here
// is a vocabulary for validation; what a session may do is decided by its mounts' capabilities.

import type { Catalog } from '../../domain/catalog.ts';

/** Exposed when `tools` is omitted: reading, talking, and the ordinary way to a pull request. Exactly 24. */
const defaultTools = [
  'actions_get',
  'actions_list',
  'add_comment_to_pending_review',
  'add_issue_comment',
  'add_reply_to_pull_request_comment',
  'create_branch',
  'create_pull_request',
  'download_attachment',
  'get_commit',
  'get_file_contents',
  'get_job_logs',
  'issue_read',
  'issue_write',
  'list_branches',
  'list_commits',
  'list_issues',
  'list_pull_requests',
  'pull_request_read',
  'pull_request_review_write',
  'search_code',
  'search_issues',
  'search_pull_requests',
  'update_pull_request',
  'update_pull_request_branch',
] as const;

/** Exposed only where an agent names them. */
const named = [
  'actions_run_trigger',
  'add_issue_comment_reaction',
  'add_issue_reaction',
  'add_pull_request_review_comment',
  'add_pull_request_review_comment_reaction',
  'add_sub_issue',
  'create_issue',
  'create_or_update_file',
  'create_pull_request_review',
  'create_repository',
  'delete_file',
  'delete_pending_pull_request_review',
  'delete_repository',
  'discussion_comment_write',
  'fork_repository',
  'get_code_quality_finding',
  'get_code_scanning_alert',
  'get_dependabot_alert',
  'get_discussion',
  'get_discussion_comments',
  'get_file_blame',
  'get_global_security_advisory',
  'get_label',
  'get_latest_release',
  'get_me',
  'get_release_by_tag',
  'get_repository_tree',
  'get_secret_scanning_alert',
  'get_tag',
  'get_team_members',
  'get_teams',
  'issue_dependency_read',
  'issue_dependency_write',
  'label_write',
  'list_code_scanning_alerts',
  'list_dependabot_alerts',
  'list_discussion_categories',
  'list_discussions',
  'list_global_security_advisories',
  'list_issue_fields',
  'list_issue_types',
  'list_label',
  'list_org_repository_security_advisories',
  'list_releases',
  'list_repository_collaborators',
  'list_repository_security_advisories',
  'list_secret_scanning_alerts',
  'list_tags',
  'projects_get',
  'projects_list',
  'projects_write',
  'push_files',
  'remove_sub_issue',
  'reprioritize_sub_issue',
  'request_pull_request_reviewers',
  'resolve_review_thread',
  'search_commits',
  'search_orgs',
  'search_repositories',
  'search_users',
  'set_issue_fields',
  'sub_issue_write',
  'submit_pending_pull_request_review',
  'unresolve_review_thread',
  'update_issue_assignees',
  'update_issue_body',
  'update_issue_labels',
  'update_issue_milestone',
  'update_issue_state',
  'update_issue_title',
  'update_issue_type',
  'update_pull_request_body',
  'update_pull_request_draft_state',
  'update_pull_request_state',
  'update_pull_request_title',
] as const;

/** The proxy's own, beside `download_attachment` above. */
const proxy = ['disable_pull_request_auto_merge', 'rerun_failed_jobs', 'update_issue_comment'] as const;

/** Need a mount with `merge: write`. */
const merge = ['enable_pull_request_auto_merge', 'merge_pull_request'] as const;

/** Need the mount's `secrets` capability; a value is written, never read. */
const secrets = [
  'actions_secret_list',
  'actions_secret_write',
  'delete_repository_secret',
  'list_repository_secrets',
  'set_repository_secret',
] as const;

export const codehostTools: Catalog['codehostTools'] = Object.fromEntries([
  ...defaultTools.map((name) => [name, { default: true }] as const),
  ...[...named, ...proxy].map((name) => [name, {}] as const),
  ...merge.map((name) => [name, { needs: 'merge' }] as const),
  ...secrets.map((name) => [name, { needs: 'secrets' }] as const),
]);
