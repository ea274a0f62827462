// Trees of agents as large as asked for, of the kind that people write: shared fragments for environment, tools and
// prompts, a body of its own, triggers of several families. The same number gives the same bytes.

const preset = `environment:
  name: node
  image:
    kind: preset
    name: node24
  steps:
    - apt-get update
  setup:
    - name: deps
      commands:
        - npm ci
      cache:
        files: [package-lock.json]
`;

const tools = (index: number): string => `tools:
  svc:
    kind: local
    implementation: svc
  codehost:
    kind: codehost
    tools: [pull_request_read, add_issue_comment, create_pull_request]
  docs-${index}:
    kind: mcp_remote
    url: https://docs-${index}.example.com/mcp
env:
  TEAM: team-${index}
  TOKEN: { $secret: team-${index}-token, optional: true }
labels:
  team: team-${index}
`;

const paragraph = `Read the report, look at the code that it names, and decide whether it is a fault of ours. Say what you found in two
sentences, name the file and the line, and propose the smallest change. Where you are not sure, say what would settle it.
`;

const agent = (index: number, fragments: number): string => `imports:
  - ../fragments/environment.yaml
  - ../fragments/tools-${index % fragments}.yaml
variables:
  area: area-${index}
name: agent-${index}
harness: harness-a
model:
  id: claude-opus-4-8
reasoningEffort: high
systemPrompt: |
  You look after area ${index}.
${paragraph.replaceAll(/^/gm, '  ').trimEnd()}
session:
  archiveAfterInactive:
    seconds: 3600
concurrency: 1
triggers:
  - name: reports
    event: webhook.received
    endpoint: reports-${index % 20}
    auth: { kind: none }
    where:
      $.area: area-${index}
      $.severity: { in: [high, critical] }
    message: 'A report for {{area}}: {{title}}'
    routing: { kind: spawn }
  - name: nightly
    kind: heartbeat
    cron: '${index % 60} 3 * * *'
    timezone: Europe/Berlin
    message: Look through what is open.
    routing: { kind: spawn }
`;

/** Paths and texts of a tree of `agents` agents over `fragments` shared tool fragments. */
export function fleet(agents: number, fragments = 20): Map<string, string> {
  const files = new Map<string, string>([['.svc/fragments/environment.yaml', preset]]);
  for (let index = 0; index < fragments; index += 1) files.set(`.svc/fragments/tools-${index}.yaml`, tools(index));
  for (let index = 0; index < agents; index += 1) {
    files.set(`.svc/agents/agent-${index}.yaml`, agent(index, fragments));
  }
  return files;
}
