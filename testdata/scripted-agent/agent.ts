// The same program by the name that it had: whoever starts it so waits for what strips types as well.

import './agent.mjs';
