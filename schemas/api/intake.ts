// Deliveries of providers. Each proves itself by its signature over the bytes; no token is asked for.

import * as v from 'valibot';
import { json, recorded } from './common.ts';
import { named, operation } from './operation.ts';

const ignored = named('IgnoredDelivery', v.object({ ignored: v.literal(true), reason: v.string() }));
/** What came of a delivery: its event, or why there is none. */
const taken = named('DeliveryReceipt', v.union([recorded, ignored]));
const challenge = named('ChatChallenge', v.object({ challenge: v.string() }));

const delivery = {
  tag: 'intake',
  method: 'POST',
  scope: 'public',
  permission: null,
  rawBody: true,
  sends: json,
} as const;

export const takeCodehostDelivery = operation({
  ...delivery,
  id: 'takeCodehostDelivery',
  path: '/api/v1/intake/codehost/:connectionId',
  summary: 'Webhooks of a code host; recorded once per delivery',
  headers: {
    'x-hub-signature-256': '`sha256=` and the hex HMAC-SHA256 of the body under the connection’s webhook secret.',
    'x-github-event': 'What happened.',
    'x-github-delivery': 'The id of the delivery, under which it is recorded once.',
  },
  answers: { 200: recorded, 202: taken },
});

export const takeTrackerDelivery = operation({
  ...delivery,
  id: 'takeTrackerDelivery',
  path: '/api/v1/intake/tracker/:connectionId',
  summary: 'Webhooks of an issue tracker; recorded once per delivery',
  headers: {
    'linear-signature': 'The hex HMAC-SHA256 of the body under the connection’s webhook secret.',
    'linear-delivery': 'The id of the delivery, under which it is recorded once.',
  },
  answers: { 200: recorded, 202: taken },
});

export const takeChatDelivery = operation({
  ...delivery,
  id: 'takeChatDelivery',
  path: '/api/v1/intake/chat/:connectionId',
  summary: 'Events of a chat provider; recorded once each. Answers its challenge',
  headers: {
    'x-slack-signature': '`v0=` and the hex HMAC-SHA256 of version, timestamp and body under the signing secret.',
    'x-slack-request-timestamp': 'When it was sent, in seconds; at most five minutes from now.',
  },
  answers: { 200: named('ChatReceipt', v.union([recorded, challenge])), 202: taken },
});

export const takeErrtrackDelivery = operation({
  ...delivery,
  id: 'takeErrtrackDelivery',
  path: '/api/v1/intake/errtrack',
  summary: 'Webhooks of the error tracker, of every installation; recorded once for each project that is subscribed',
  headers: {
    'sentry-hook-signature': 'The hex HMAC-SHA256 of the body under the application’s secret.',
    'sentry-hook-resource': 'What the body is about; held against the body.',
    'idempotency-key': 'Under which it is recorded once; else it is known by its content.',
  },
  answers: { 200: recorded, 202: taken },
});
