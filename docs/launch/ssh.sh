#!/usr/bin/env bash
# One run on several hosts over ssh. All of them mount the current folder.
#
#     HOSTS="host0 host1" docs/launch/ssh.sh electra-pretrain \
#         --config=... --model_dir=... --max_restarts=3
#
# Ctrl-C saves and ends on all hosts. The exit code is the highest of theirs.
set -euo pipefail
read -ra hosts <<<"$HOSTS"
port=${PORT:-2222}
workers=
for index in "${!hosts[@]}"; do
    workers+="${workers:+, }\"${hosts[index]}:$((port + index))\""
done
command=$(printf '%q ' "$@" --config.training.strategy=multi_worker)
pids=()
for index in "${!hosts[@]}"; do
    config="{\"cluster\": {\"worker\": [$workers]}, \"task\": {\"type\": \"worker\", \"index\": $index}}"
    # With a terminal of its own, the command there ends with its ssh here.
    ${SSH:-ssh -tt} "${hosts[index]}" \
        "cd $(printf '%q' "$PWD") && exec env TF_CONFIG='$config' $command" \
        </dev/null &
    pids+=($!)
done
trap 'kill "${pids[@]}" 2>/dev/null || true' INT TERM HUP
highest=0
for pid in "${pids[@]}"; do
    code=0
    wait "$pid" || code=$?
    # A signal ends `wait`, not yet the command.
    while kill -0 "$pid" 2>/dev/null; do
        code=0
        wait "$pid" || code=$?
    done
    ((code > highest)) && highest=$code
done
exit "$highest"
