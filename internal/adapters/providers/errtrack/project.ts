// What agents see of an issue and of an event: named fields, nothing else. Traces, spans, releases, people who looked, and
// whatever the provider adds later are left out by not being named. Values are as they came: this hides no secret that an
// application wrote into its own errors.

import { idAt, objectAt, textAt } from '../../../domain/fields.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';

type Fields = readonly string[];
export const isThere = (value: Json | undefined): boolean => value !== undefined && value !== null;

/** Of an object, the fields of that name that are there. */
const pick = (value: Json | undefined, fields: Fields): JsonObject => {
  const from = objectAt(value);
  return Object.fromEntries(
    fields.filter((name) => from[name] !== undefined).map((name) => [name, from[name] as Json]),
  );
};
const each = (value: Json | undefined, project: (item: Json) => JsonObject): JsonObject[] =>
  Array.isArray(value) ? (value as Json[]).map(project) : [];

const issueList: Fields = [
  'id',
  'shortId',
  'title',
  'culprit',
  'permalink',
  'level',
  'status',
  'substatus',
  'platform',
  'type',
  'issueType',
  'issueCategory',
  'priority',
  'count',
  'userCount',
  'firstSeen',
  'lastSeen',
  'isUnhandled',
];

/** An issue's metadata. */
export function projectIssue(issue: JsonObject): JsonObject {
  const assigned = issue['assignedTo'];
  return {
    ...pick(issue, issueList),
    project: pick(issue['project'], ['id', 'slug', 'name', 'platform']),
    metadata: pick(issue['metadata'], ['type', 'value', 'title', 'filename', 'function']),
    ...(isThere(assigned) && { assignedTo: pick(assigned, ['type', 'id', 'name']) }),
  };
}

const frame: Fields = ['filename', 'absPath', 'module', 'function', 'lineNo', 'colNo', 'inApp', 'context', 'vars'];
const frames = (value: Json | undefined): JsonObject => ({
  frames: each(objectAt(value)['frames'], (one) => pick(one, frame)),
});
const optionalFrames = (value: Json | undefined): JsonObject => (isThere(value) ? { stacktrace: frames(value) } : {});

/** By the type of an entry; the others are left out. */
const entryReaders: { readonly [type: string]: (data: JsonObject) => JsonObject } = {
  exception: (data) => ({
    values: each(data['values'], (one) => ({
      ...pick(one, ['type', 'value', 'module', 'threadId']),
      ...(isThere(objectAt(one)['mechanism']) && {
        mechanism: pick(objectAt(one)['mechanism'], ['type', 'handled', 'synthetic']),
      }),
      ...optionalFrames(objectAt(one)['stacktrace']),
    })),
  }),
  stacktrace: frames,
  threads: (data) => ({
    values: each(data['values'], (one) => ({
      ...pick(one, ['id', 'name', 'crashed', 'current', 'state']),
      ...optionalFrames(objectAt(one)['stacktrace']),
    })),
  }),
  message: (data) => pick(data, ['formatted', 'message', 'params']),
  request: (data) => pick(data, ['url', 'method', 'headers', 'query', 'data', 'fragment']),
  breadcrumbs: (data) => ({
    values: each(data['values'], (one) => pick(one, ['timestamp', 'type', 'category', 'level', 'message', 'data'])),
  }),
};

/** An event with its exception, stack trace, thread, message, request and breadcrumb entries. */
export function projectEvent(event: JsonObject): JsonObject {
  const entries = each(event['entries'], (item) => {
    const { type, data } = objectAt(item);
    const name = textAt(type) ?? '';
    const project = Object.hasOwn(entryReaders, name) ? entryReaders[name] : undefined;
    return project === undefined ? {} : { type: name, data: project(objectAt(data)) };
  }).filter((one) => one['type'] !== undefined);
  return {
    ...pick(event, [
      'eventID',
      'groupID',
      'projectID',
      'type',
      'title',
      'message',
      'platform',
      'dateCreated',
      'dateReceived',
    ]),
    entries,
  };
}

/** Whether an event is one of the issue and its project: what the provider gives for a name is checked, not believed. */
export const belongsTo = (event: JsonObject, issue: { readonly id: string; readonly projectId: string }): boolean =>
  idAt(event['groupID']) === issue.id && idAt(event['projectID']) === issue.projectId;
