local KEEP = 7776000000 -- ms that the state is kept: 90 days
