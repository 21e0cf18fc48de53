#!/bin/sh
REDISLOCK_TOKEN=$(redislock --acquire -w 30m -t 15m deploy) || exit
export REDISLOCK_TOKEN # between steps: a variable not shown in logs

./build.sh
redislock --extend deploy || exit # 79: the lock is no longer ours
./deploy.sh
redislock --release deploy
