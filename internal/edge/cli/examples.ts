// What a person would type, by command: shown by `svc COMMAND --help` and in docs/reference/cli.md. Each line is read
// against the table of commands by a test.

const byCommand: { readonly [command: string]: readonly string[] } = {
  validate: ['svc validate ~/fleet --strict', 'svc validate --format sarif > svc.sarif'],
  diff: ['svc diff ~/fleet --exit-code'],
  apply: ['svc apply ~/fleet --dry-run'],
  explain: ['svc explain triggers.where'],
  init: [
    'svc init ~/fleet --name triage --event webhook.received',
    'svc init --name digest --cron "0 7 * * 1-5" --yes',
  ],
  dev: [
    'svc dev triage ~/fleet --message hello',
    'svc dev triage --key webhook.received --event payload.json --keep /tmp/triage',
  ],
  describe: ['svc describe agent triage', 'svc describe session 1a2b3c'],
  'repo add': [
    'svc repo add fleet --path ~/fleet --wait',
    'svc repo add fleet --url https://github.com/acme/fleet.git --branch main --connection gh --wait',
  ],
  'repo edit': ['svc repo edit fleet --branch release --interval 5m'],
  'repo sync': ['svc repo sync fleet --wait'],
  'repo remove': ['svc repo remove fleet --dry-run', 'svc repo remove fleet --keep-resources --yes'],
  'repo rollback': ['svc repo rollback fleet --dry-run', 'svc repo rollback fleet 3f9c2d1 --wait'],
  'repo pin': ['svc repo pin fleet 3f9c2d1 --reason "freeze for the release"'],
  'repo probe': ['svc repo probe https://github.com/acme/fleet.git --connection gh'],
  'reconcile list': ['svc reconcile list --repo fleet --status failed'],
  'agent start': ['svc agent start triage --message "Look at the newest report."'],
  'trigger explain': ['svc trigger explain --event webhook.received --endpoint reports --payload payload.json'],
  'event list': ["svc event list --key 'webhook.*' --status unmatched"],
  'session list': ['svc session list --agent triage --live --watch'],
  'session send': ['svc session send 1a2b3c "Stop, and sum up."'],
  'session exec': ['svc session exec 1a2b3c -- git status'],
  'secret set': [
    'svc secret set TRACKER_KEY --from-file key.txt',
    'svc secret set API_TOKEN --from-file - --inject-host api.example.com --inject-header authorization --inject-format "Bearer {value}"',
  ],
  'secret rotate': ['svc secret rotate TRACKER_KEY --from-file key.txt'],
  'connection add': [
    'svc connection add codehost gh --app-id 12345 --private-key-file app.pem --from-file webhook-secret.txt',
    'svc connection add chat team --from-file signing-secret.txt --bot-token-file token.txt',
  ],
  'connect mcp': ['svc connect mcp docs --url https://mcp.example.com/mcp'],
  'allow errtrack': ['svc allow errtrack web --connection errors'],
  'notify add': [
    'svc notify add chat ops --connection team --channel C0123456789 --on sync-failed --on sync-recovered',
    'svc notify add webhook pager --url https://pager.example.com/svc --from-file secret.txt',
  ],
  'project set': ['svc project set web --network-allow @npm --network-allow api.example.com --max-memory 4096'],
  'member set': ['svc member set ana@example.com --role operator', 'svc member set deployer --role admin --org'],
  'token create': ['svc token create laptop --expires-at 2027-01-01T00:00:00Z', 'svc token create ci --for deployer'],
  'account create': ['svc account create deployer --role member'],
  'audit list': ['svc audit list --action secret.revealed --since 2026-11-01'],
  'audit export': ['svc audit export --since 2026-11-01 > audit.jsonl'],
  backup: ['svc backup /backups/2026-11-23'],
  restore: ['svc restore /backups/2026-11-23 --data-dir /var/lib/svc'],
  'preset build': ['svc preset build base --from rootfs.tar.zst'],
  spend: ['svc spend --by day --days 7'],
};

/** What a person would type to have this command do something; none where its usage says it all. */
export const examplesOf = (words: readonly string[]): readonly string[] => byCommand[words.join(' ')] ?? [];
export const commandsWithExamples = (): readonly string[] => Object.keys(byCommand);
