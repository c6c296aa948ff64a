#!/usr/bin/env bash
# One gate of a pipeline: here, or as a run of a deployment on a Prefect server. Ends with the gate's own exit code, and leaves
# prelaunch.json, junit.xml, summary.md and report.html in a folder, whatever happens, and logs.txt, the ends of the training's logs, if
# it failed. GitHub's action calls it; other pipelines may.
#
#   PRELAUNCH_GATE_FILE        a gate file to run here, or
#   PRELAUNCH_DEPLOYMENT       a deployment ("gate/NAME") of the server at PREFECT_API_URL
#   PRELAUNCH_SETS             lines of a.b=value, for the gate file
#   PRELAUNCH_WAIT             verdict, started or finished
#   PRELAUNCH_CHECK_ONLY       true: check and decide, and launch nothing (the pipeline's next step trains)
#   PRELAUNCH_TIMEOUT_MINUTES  if the gate or the deployment's run has not finished by then, it is ended, and the exit code is 3
#   PRELAUNCH_ONCE             a key that starts one run of a deployment, however often it is asked
#   PRELAUNCH_OUT              the folder (prelaunch-results)
#   PRELAUNCH                  the command (prelaunch); several words, such as "uv run prelaunch", are split at blanks
set -uo pipefail

read -r -a prelaunch <<<"${PRELAUNCH:-prelaunch}"
[[ -x ${PRELAUNCH:-} ]] && prelaunch=("$PRELAUNCH")
minutes=${PRELAUNCH_TIMEOUT_MINUTES:-}
out=${PRELAUNCH_OUT:-prelaunch-results}
gate=${PRELAUNCH_GATE_FILE:-}
deployment=${PRELAUNCH_DEPLOYMENT:-}

mkdir -p "$out" || exit 2
rm -f "$out"/{prelaunch.json,junit.xml,summary.md,report.html,logs.txt} || exit 2

# A mistake in the variables themselves; the sentence has no sign that JSON, XML or HTML would have to escape.
refuse() {
    local text="The variables of the gate's step are wrong: $1"
    printf '{\n  "error": {\n    "kind": "request",\n    "file": null,\n    "path": null,\n    "line": null,\n    "message": "%s",\n    "nearest": null\n  }\n}\n' \
        "$text" >"$out/prelaunch.json"
    printf '<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="prelaunch" tests="1" failures="0" errors="1" skipped="0" time="0.000">\n  <testcase classname="request" name="variables" time="0.000">\n    <error type="REJECTED" message="%s"/>\n  </testcase>\n</testsuite>\n' \
        "$text" >"$out/junit.xml"
    printf '# REJECTED\n\n%s\n' "$text" | tee "$out/summary.md" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
    printf '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>REJECTED</title></head><body><h1>REJECTED</h1><p>%s</p></body></html>\n' \
        "$text" >"$out/report.html"
    echo "prelaunch: $1" >&2
    [[ ${GITHUB_ACTIONS:-} != true ]] || echo "::error title=Prelaunch rejected the request::$1" >&2
    exit 2
}
if [[ (-n $gate && -n $deployment) || (-z $gate && -z $deployment) ]]; then
    refuse "name a gate file or a deployment, one of the two"
fi
if [[ -n $minutes && ! $minutes =~ ^[0-9]{1,5}([.][0-9]+)?$ || $minutes =~ ^[0.]+$ ]]; then
    refuse "timeout-minutes is not a number above 0, such as 60"
fi

arguments=(--format json --junit "$out/junit.xml" --summary "$out/summary.md" --html "$out/report.html" --logs "$out/logs.txt")
[[ -n ${PRELAUNCH_WAIT:-} ]] && arguments+=(--wait "$PRELAUNCH_WAIT")
[[ ${PRELAUNCH_CHECK_ONLY:-} == true ]] && arguments+=(--check-only)
while IFS= read -r line; do
    [[ -n ${line// /} ]] && arguments+=(--set "$line")
done <<<"${PRELAUNCH_SETS:-}"
if [[ -n $deployment ]]; then
    [[ -n $minutes ]] && arguments+=(--timeout-minutes "$minutes")
    [[ -n ${PRELAUNCH_ONCE:-} ]] && arguments+=(--once "$PRELAUNCH_ONCE")
    command=("${prelaunch[@]}" trigger "$deployment" "${arguments[@]}")
else
    command=("${prelaunch[@]}" gate "$gate" "${arguments[@]}")
    # A gate that is told to end ends its jobs first; after five minutes it is killed, and the next gate of the cluster does it.
    [[ -n $minutes ]] && command=(timeout --foreground --preserve-status --kill-after=5m "${minutes}m" "${command[@]}")
fi

# A pipeline that is cancelled ends the gate, which ends its jobs: bash would wait for it without telling it. Always by SIGTERM: what a
# script starts in the background ignores SIGINT (POSIX, 2.11 Signals and Error Handling), which GitHub sends first.
"${command[@]}" >"$out/prelaunch.json" &
child=$!
told=
trap 'told=1; kill -TERM "$child" 2>/dev/null' TERM HUP INT
while true; do
    wait "$child"
    code=$?
    kill -0 "$child" 2>/dev/null || break
done
trap - TERM HUP INT

cancelled=
[[ $code != 130 && $code != 143 ]] || cancelled=1
if [[ -n $minutes && -z $told && ($code == 143 || $code == 137) ]]; then
    late="the gate had not finished after $minutes minutes, and was ended"
    echo "prelaunch: $late" >&2
    [[ ! -s $out/summary.md ]] || printf '\nBecause %s, the exit code is 3.\n' "$late" >>"$out/summary.md"
    code=3
fi
word=$(sed -n 's/^  "decision": "\{0,1\}\([a-z_]*\)"\{0,1\},$/\1/p' "$out/prelaunch.json" | head -n 1)
word=${word/null/}
if [[ $code == 0 && ! $word =~ ^(launched|passed|overridden|observed)$ ]]; then
    # Such as --help in place of a gate file: what ended well without a decision was no gate.
    echo "prelaunch: the command ended with 0 and did not say go: look at what it was given" >&2
    code=3
fi
if [[ -n ${GITHUB_OUTPUT:-} ]]; then
    printf 'exit-code=%s\ndecision=%s\nresults=%s\n' "$code" "$word" "$out" >>"$GITHUB_OUTPUT"
fi
if [[ -n ${GITHUB_STEP_SUMMARY:-} && -s $out/summary.md ]]; then
    # GitHub refuses a step's summary of more than 1 MiB whole.
    head -c 1000000 "$out/summary.md" >>"$GITHUB_STEP_SUMMARY"
    if [[ $(wc -c <"$out/summary.md") -gt 1000000 ]]; then
        printf '\n\nCut here: all of it is in summary.md of the results.\n' >>"$GITHUB_STEP_SUMMARY"
    fi
fi
if [[ $code != 0 && -z ${GITHUB_STEP_SUMMARY:-} && -s $out/summary.md ]]; then
    # Where no page shows the summary, whoever reads the job's log finds the findings and their remedies there.
    sed '/^## Nodes$/,$d' "$out/summary.md" | head -c 20000 >&2
fi
logs=
[[ -s $out/logs.txt ]] && logs=", logs in $out/logs.txt"
said=${word:-nothing was decided}
[[ -z $cancelled ]] || said=cancelled
echo "prelaunch: $said, exit code $code, results in $out$logs" >&2
exit "$code"
