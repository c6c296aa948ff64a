# The part of a batch script that is the same for every job. Above it stand the #SBATCH lines and these variables: job (its folder),
# nodes, max_runtime_s, grace_s, failed_grace_s (0: the nodes of a job that fail do not end it), srun_options and agent (the agent's
# arguments).
set -u
umask 077
SECONDS=0

# Names of Slurm's jobs are not unique, and two gates may submit at the same moment: the first job that starts has the folder.
(set -o noclobber && echo "$SLURM_JOB_ID" >"$job/claim") 2>/dev/null
if [[ "$(cat "$job/claim" 2>/dev/null)" != "$SLURM_JOB_ID" ]]; then
    echo "prelaunch: the folder $job is not there, cannot be written, or belongs to another job: nothing was started" >&2
    exit 75
fi
rm -f "$job/ended.json" # of a start before this one
touch "$job/begun"
echo "prelaunch: start $((${SLURM_RESTART_COUNT:-0} + 1)) of job $SLURM_JOB_ID" >&2 # what follows in the log is of this start

# The user's profile may set what belongs to another gate.
for name in "${!PRELAUNCH_@}" "${!PREFECT_@}"; do
    unset "$name"
done
export PATH="${PATH:-/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin}"
# Two jobs on one node do not meet: 3000 groups of ports, below those that the kernel gives away (ip_local_port_range).
export PRELAUNCH_PORT=$((20000 + 4 * (SLURM_JOB_ID % 3000)))
export PRELAUNCH_OUT="$job/out" PRELAUNCH_EXCHANGE_KEY="$job/in/exchange.key" PRELAUNCH_SHARED=1
export PRELAUNCH_GRACE_S="$grace_s" PRELAUNCH_JOIN_S="$join_s"
[[ -z "$python" ]] || export PRELAUNCH_PYTHON="$python"
[[ -z "$interface" ]] || export PRELAUNCH_INTERFACE="$interface"

# --export=ALL, because the job itself has --export=NONE and the step would find no PATH. Bash before 4.4 ends a script with set -u that
# expands an empty array; the + does not.
# shellcheck disable=SC2016
set -- "$(type -P srun || echo /usr/bin/srun)" \
    --export=ALL --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --kill-on-bad-exit=0 --wait=0 --cpu-bind=none \
    --input=none --open-mode=append --output="$job/logs/%N.log" ${srun_options[@]+"${srun_options[@]}"} \
    /bin/sh -c 'PRELAUNCH_ROOT=$0/nodes/$SLURMD_NODENAME exec /bin/sh "$0/in/start.sh" "$@"' "$job" "${agent[@]}"
# The training's variables may have the names of this script's own: they are set only where nothing but srun follows.
# shellcheck disable=SC1091
(unset srun_options agent && . "$job/in/environment.sh" && exec "$@") & # bash exports no arrays
step=$!
# sbatch --signal=B:... sends it to this script alone, and the default action would end the job.
trap 'scancel --signal=USR1 "$SLURM_JOB_ID"' USR1
trap 'scancel --signal=USR2 "$SLURM_JOB_ID"' USR2

# Waits so many seconds, at most until the step ends. Bash before 4.3 has no wait -n.
pause() {
    if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 403)); then
        sleep 1
    else
        sleep "$1" &
        wait -n "$step" $!
    fi
}

# The nodes on which the training has failed in this start, once it has begun on any: before that, healthy nodes still report.
failed_nodes() {
    [[ -n "$(find "$job"/out/*/started -type f -newer "$job/begun" -print -quit 2>/dev/null)" ]] || return 0
    find "$job"/out/*/agent -name '*.json' -newer "$job/begun" -exec grep -lE '"exit_code": -?[1-9]' {} + 2>/dev/null |
        sed 's|.*/||; s|[.]json$||' | sort | tr '\n' ' '
}

# Nodes that passed and that the training does not need go back to Slurm, except this one. A job that Slurm starts again gets all.
give_back() {
    local spare node left
    for spare in "$job"/nodes/*/spare; do
        node="${spare%/spare}" node="${node##*/}"
        [[ -e "$spare" ]] && rm -f "$spare" && [[ "$node" != "${SLURMD_NODENAME:-}" ]] || continue
        left="$(scontrol show hostnames "$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%N)" | grep -Fxv "$node" | paste -sd,)"
        (cd "$job" && scontrol update "JobId=$SLURM_JOB_ID" "NodeList=$left") >&2 # it writes two scripts where it runs
    done
}

# Slurm counts whole minutes. At the max runtime the nodes are told first; SIGTERM to srun then kills its tasks.
overdue=false failed='' failed_by=0 cut=''
while kill -0 "$step" 2>/dev/null; do
    give_back
    left=$((max_runtime_s - SECONDS))
    if ((failed_grace_s > 0)) && [[ -z "$failed" ]]; then
        failed="$(failed_nodes)"
        failed_by=$((SECONDS + failed_grace_s))
    fi
    [[ -z "$failed" ]] || ((left < failed_by - SECONDS)) || left=$((failed_by - SECONDS))
    if ((left <= 0)); then
        if ((SECONDS < max_runtime_s)); then cut="${failed% }"; else overdue=true; fi
        scancel --signal=TERM "$SLURM_JOB_ID"
        until=$((SECONDS + grace_s))
        while kill -0 "$step" 2>/dev/null && ((SECONDS < until)); do pause $((until - SECONDS)); done
        kill -TERM "$step" 2>/dev/null
        break
    fi
    before=$SECONDS
    pause $((left < 5 ? left : 5))
    ((SECONDS - before < 60)) || SECONDS=$before # the job was suspended, and did not run meanwhile
done
wait "$step"
code=$?
printf '{"job_id": %d, "restarts": %d, "exit_code": %d, "overdue": %s, "failed": "%s"}\n' \
    "$SLURM_JOB_ID" "${SLURM_RESTART_COUNT:-0}" "$code" "$overdue" "$cut" >"$job/.ended.json" && mv -f "$job/.ended.json" "$job/ended.json"
exit "$code"
