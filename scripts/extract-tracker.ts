// Makes testdata/providers/tracker.graphql anew: of the tracker's published schema the types and fields that the service
// asks for and those that the provider's own client asks for when it reads issues and comments, as they stand there, with
// every input type and enumeration that these lead to. The simulator refuses what it refuses.
//
//   git clone https://github.com/linear/linear
//   node scripts/extract-tracker.ts linear/packages/sdk/src/schema.graphql $(git -C linear rev-parse HEAD)

import { readFileSync, writeFileSync } from 'node:fs';
import { LinearSdk } from '@linear/sdk';
import {
  buildASTSchema,
  type DocumentNode,
  getNamedType,
  Kind,
  parse,
  print,
  TypeInfo,
  type TypeNode,
  visit,
  visitWithTypeInfo,
} from 'graphql';

const [, , source = '', commit = ''] = process.argv;
const page = ['nodes', 'pageInfo'];
/** Of each type, the fields that are kept. */
const own: { readonly [type: string]: readonly string[] } = {
  Query: ['issue', 'comment', 'viewer', 'searchIssues', 'issueLabels'],
  Mutation: ['commentCreate', 'issueUpdate'],
  Issue: 'id identifier title description url priority state team project assignee labels comments'.split(' '),
  IssueSearchResult: 'id identifier title url priority state team assignee'.split(' '),
  IssueSearchPayload: ['nodes', 'pageInfo', 'totalCount'],
  PageInfo: ['hasNextPage', 'endCursor'],
  WorkflowState: ['id', 'name', 'type'],
  WorkflowStateConnection: page,
  Team: ['id', 'key', 'name', 'states', 'members'],
  Project: ['id', 'name'],
  User: ['id', 'name', 'displayName', 'email'],
  UserConnection: page,
  IssueLabel: ['id', 'name', 'team'],
  IssueLabelConnection: page,
  Comment: ['id', 'body', 'url', 'createdAt', 'user', 'issue'],
  CommentConnection: page,
  CommentPayload: ['lastSyncId', 'success', 'comment'],
  IssuePayload: ['lastSyncId', 'success', 'issue'],
};

// Prose stays out.
const whole = visit(parse(readFileSync(source, 'utf8'), { noLocation: true }), {
  StringValue: (node, key) => (key === 'description' ? null : node),
  Directive: () => null,
}) as DocumentNode;

/** The queries of the provider's client for what the service reads too. */
async function clientsQueries(): Promise<DocumentNode[]> {
  const asked: DocumentNode[] = [];
  const client = new LinearSdk(async (query) => {
    asked.push(parse(String(query)));
    throw new Error('nobody is asked here');
  });
  const reads = [client.issue('x'), client.comment({ id: 'x' }), client.viewer, client.searchIssues('x')];
  await Promise.allSettled(reads);
  return asked;
}

const fieldsTable: { [type: string]: Set<string> } = {};
const keep = (type: string, field: string): void => void (fieldsTable[type] ??= new Set()).add(field);
for (const [type, fields] of Object.entries(own)) for (const field of fields) keep(type, field);
const types = new TypeInfo(buildASTSchema(whole, { assumeValidSDL: true }));
for (const query of await clientsQueries()) {
  visit(
    query,
    visitWithTypeInfo(types, {
      Field(node) {
        const parent = types.getParentType();
        if (parent && node.name.value !== '__typename') keep(getNamedType(parent).name, node.name.value);
      },
    }),
  );
}

const nameOf = (type: TypeNode): string => (type.kind === Kind.NAMED_TYPE ? type.name.value : nameOf(type.type));
const wanted = new Set(Object.keys(fieldsTable));
const kept: DocumentNode['definitions'][number][] = [];
const done = new Set<string>();
while (done.size < wanted.size) {
  for (const name of [...wanted].filter((one) => !done.has(one))) {
    done.add(name);
    const found = whole.definitions.find((one) => 'name' in one && one.name?.value === name);
    if (found === undefined) continue;
    if (found.kind === Kind.OBJECT_TYPE_DEFINITION) {
      const fields = found.fields?.filter((one) => fieldsTable[name]?.has(one.name.value) === true) ?? [];
      for (const field of fields) for (const arg of field.arguments ?? []) wanted.add(nameOf(arg.type));
      for (const field of fields) wanted.add(nameOf(field.type));
      kept.push({ ...found, fields, interfaces: [] });
    } else {
      if (found.kind === Kind.INPUT_OBJECT_TYPE_DEFINITION) {
        for (const field of found.fields ?? []) wanted.add(nameOf(field.type));
      }
      kept.push(found);
    }
  }
}
const head = [
  `# linear/linear @${commit}, packages/sdk/src/schema.graphql: some types and fields of it; prose left out`,
  '# made by scripts/extract-tracker.ts',
];
const text = kept.map((one) => print(one)).join('\n');
writeFileSync(new URL('../testdata/providers/tracker.graphql', import.meta.url), `${[...head, text].join('\n')}\n`);
