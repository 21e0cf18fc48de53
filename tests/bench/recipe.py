"""The Lock of python3-redis around a command, as a peer in the bench.

recipe.py PORT NAME COMMAND...      exit status: the command's, or 75 when held
"""
import subprocess
import sys

import redis

port, name, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
lock = redis.Redis(port=port).lock("lock:" + name, timeout=60)
if not lock.acquire(blocking=False):
    sys.exit(75)
try:
    status = subprocess.call(command)
finally:
    lock.release()
sys.exit(status)
