// What became of a delivery.

import type { RouterStatus } from '../../adapters/store/events/events.ts';

export interface Recorded {
  readonly eventRecordId: string;
  readonly created: boolean;
  readonly routerStatus: RouterStatus;
}

export type Intake = { readonly ignored: true; readonly reason: string } | Recorded;
