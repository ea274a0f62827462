// Every service of the daemon, one line each.

import type { Service } from './service.ts';
import { checkServices } from './check-services.ts';
import { routingServices } from './routing-services.ts';
import { heartbeatServices } from './heartbeat-services.ts';
import { ingestServices } from './ingest-services.ts';
import { hostServices } from './host-services.ts';
import { keyServices } from './key-services.ts';
import { notifyServices } from './notify-services.ts';
import { outboxServices } from './outbox-services.ts';
import { planServices } from './plan-services.ts';
import { syncServices } from './sync-services.ts';
import { tenancyServices } from './tenancy-services.ts';

export const services: readonly Service[] = [
  ...syncServices,
  ...tenancyServices,
  ...keyServices,
  ...ingestServices,
  ...heartbeatServices,
  ...checkServices,
  ...outboxServices,
  ...notifyServices,
  ...planServices,
  ...routingServices,
  ...hostServices,
];
