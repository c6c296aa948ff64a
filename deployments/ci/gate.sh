#!/usr/bin/env bash
# One gate of a pipeline: here, or as a run of a deployment on a Prefect server. Ends with the gate's own exit code, and leaves
# prelaunch.json, junit.xml, summary.md and report.html in a folder, whatever happens, and logs.txt, the ends of the training's logs, if
# it failed. GitHub's action calls it; other pipelines may.
#
#   PRELAUNCH_GATE_FILE        a gate file to run here, or
#   PRELAUNCH_DEPLOYMENT       a deployment ("gate/NAME") of the server at PREFECT_API_URL
#   PRELAUNCH_SETS             lines of a.b=value, for the gate file
#   PRELAUNCH_WAIT             verdict, started or finished
#   PRELAUNCH_CHECK_ONLY       true or false: check and decide, and launch nothing (the pipeline's next step trains)
#   PRELAUNCH_TIMEOUT_MINUTES  if the gate or the deployment's run has not finished by then, it is ended, and the exit code is 3
#   PRELAUNCH_ONCE             a key that starts one run of a deployment, however often it is asked
#   PRELAUNCH_OUT              the folder (prelaunch-results)
#   PRELAUNCH                  the command (prelaunch); several words, such as "uv run prelaunch", are split at blanks
set -uo pipefail

read -r -a prelaunch <<<"${PRELAUNCH:-prelaunch}"
[[ -x ${PRELAUNCH:-} && ! -d ${PRELAUNCH:-} ]] && prelaunch=("$PRELAUNCH")
minutes=${PRELAUNCH_TIMEOUT_MINUTES:-}
out=${PRELAUNCH_OUT:-prelaunch-results}
gate=${PRELAUNCH_GATE_FILE:-}
deployment=${PRELAUNCH_DEPLOYMENT:-}
code=2
word=
told=
child=

# A pipeline that is cancelled ends the gate, which ends its jobs: bash would wait for it without telling it. Always by SIGTERM: what a
# script starts in the background ignores SIGINT (POSIX, 2.11 Signals and Error Handling), which GitHub sends first.
# shellcheck disable=SC2329 # called by the traps
tell() {
    echo "prelaunch: $1 received: the gate is told to end" >&2
    told=$1
    rang=1
    [[ -z $child ]] || kill -TERM "$child" 2>/dev/null
}
trap 'tell SIGTERM' TERM
trap 'tell SIGHUP' HUP
trap 'tell SIGINT' INT

if ! mkdir -p "$out" || ! rm -f "$out"/{prelaunch.json,junit.xml,summary.md,report.html,logs.txt} || [[ ! -w $out ]]; then
    echo "prelaunch: the folder of the results (results, PRELAUNCH_OUT), $out, cannot be written: rejected, exit code 2" >&2
    [[ ${GITHUB_ACTIONS:-} != true ]] || echo "::error title=Prelaunch rejected the request::the folder of the results cannot be written" >&2
    printf 'exit-code=2\ndecision=\nresults=%s\n' "$out" >>"${GITHUB_OUTPUT:-/dev/null}"
    exit 2
fi

# The gate's name: as its file says it before the first table, else as the file or the deployment is called. Only what can be a name is
# one, so that no sign of it has a meaning in any of the results.
name_of_gate() {
    local named=${gate:-$deployment} found=
    if [[ -f $gate ]]; then
        found=$({ head -c 65536 <"$gate" | LC_ALL=C sed -n -E \
            -e '/^[[:space:]]*\[/q' -e "s/^[[:space:]]*name[[:space:]]*=[[:space:]]*[\"']([a-z0-9]([a-z0-9-]{0,17}[a-z0-9])?)[\"'][[:space:]]*(#.*)?\$/\1/p" | head -n 1; } 2>/dev/null)
    fi
    named=${named##*/}
    found=${found:-${named%.toml}}
    [[ $found =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$ ]] || found=gate
    echo "$found"
}

# The results where the command itself left none: how the end is headed, and one sentence about it.
write_results() {
    local head=$1 name title='the gate did not end well' line json xml
    name=$(name_of_gate)
    line=$(tr -d '\000-\037\177' <<<"$2")
    json=$(sed 's/\\/\\\\/g; s/"/\\"/g' <<<"$line")
    xml=$(sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g; s/"/\&quot;/g' <<<"$line")
    if [[ $head == REJECTED ]]; then
        title='rejected the request'
        printf '{\n  "error": {\n    "kind": "request",\n    "file": null,\n    "path": null,\n    "line": null,\n    "message": "%s",\n    "nearest": null\n  }\n}\n' \
            "$json" >"$out/prelaunch.json"
    else
        printf '{\n  "answer": null,\n  "decision": null,\n  "first_line": "%s %s: %s",\n  "culprits": [],\n  "reason": "%s",\n  "rejected": null,\n  "gate_id": "",\n  "verdict": null,\n  "training": {"job_id": null, "state": null},\n  "placement": null,\n  "left_out": {},\n  "approval": null,\n  "report": null,\n  "html": null,\n  "cost": null,\n  "images": null\n}\n' \
            "$head" "$name" "$json" "$json" >"$out/prelaunch.json"
    fi
    printf '<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="prelaunch %s" tests="1" failures="0" errors="1" skipped="0" time="0.000">\n  <testcase classname="request" name="%s" time="0.000">\n    <error type="%s" message="%s"/>\n  </testcase>\n</testsuite>\n' \
        "$name" "$name" "$head" "$xml" >"$out/junit.xml"
    # shellcheck disable=SC2001 # what & means in a replacement differs between versions of bash
    printf '# %s %s\n\n%s\n' "$head" "$name" "$(sed 's/</\&lt;/g' <<<"$line")" >"$out/summary.md"
    printf '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>%s %s</title></head><body><h1>%s</h1><p>%s</p></body></html>\n' \
        "$head" "$name" "$head" "$xml" >"$out/report.html"
    [[ ${GITHUB_ACTIONS:-} != true ]] || echo "::error title=Prelaunch $title::$head $name: ${line//%/%25}" >&2
}

# What GitHub's page and the next steps see, the last line of the log, and the exit code.
finish() {
    local logs=
    if [[ -n ${GITHUB_OUTPUT:-} ]]; then
        printf 'exit-code=%s\ndecision=%s\nresults=%s\n' "$code" "$word" "$out" >>"$GITHUB_OUTPUT"
    fi
    if [[ ! -s $out/summary.md ]]; then
        : # the command decided, and wrote no page
    elif [[ -n ${GITHUB_STEP_SUMMARY:-} ]]; then
        # GitHub refuses a step's summary of more than 1 MiB whole.
        head -c 1000000 "$out/summary.md" >>"$GITHUB_STEP_SUMMARY"
        if [[ $(wc -c <"$out/summary.md") -gt 1000000 ]]; then
            printf '\n\nCut here: all of it is in summary.md of the results.\n' >>"$GITHUB_STEP_SUMMARY"
        fi
    elif [[ $code != 0 ]]; then
        # Where no page shows the summary, whoever reads the job's log finds the findings and their remedies there.
        # It shows no Markdown, so the signs that are escaped there stand for themselves.
        sed -e '/^## Nodes$/,$d' -e 's/&#91;/[/g; s/&#93;/]/g; s/&#95;/_/g; s/&#42;/*/g; s/&#96;/`/g; s/&#58;/:/g; s/&#47;/\//g; s/&#46;/./g' \
            -e 's/&#36;/$/g; s/&#60;/</g; s/&#62;/>/g; s/&#124;/|/g; s/&#126;/~/g; s/&#35;/#/g; s/&#64;/@/g; s/&#92;/\\/g; s/&#38;/\&/g' \
            "$out/summary.md" | head -c 20000 >&2
    fi
    [[ -s $out/logs.txt ]] && logs=", logs in $out/logs.txt"
    echo "prelaunch: $1, exit code $code, results in $out$logs" >&2
    exit "$code"
}

# A mistake in the variables themselves.
refuse() {
    write_results REJECTED "The variables of the gate's step are wrong: $1"
    finish rejected
}

if [[ (-n $gate && -n $deployment) || (-z $gate && -z $deployment) ]]; then
    refuse "name a gate file (gate-file, PRELAUNCH_GATE_FILE) or a deployment (deployment, PRELAUNCH_DEPLOYMENT), one of the two"
fi
if [[ $gate == -* || $deployment == -* ]]; then
    refuse "$gate$deployment is an option, and no gate file and no deployment"
fi
if [[ -n $minutes && ! $minutes =~ ^[0-9]{1,5}([.][0-9]+)?$ || $minutes =~ ^[0.]+$ ]]; then
    refuse "timeout-minutes (PRELAUNCH_TIMEOUT_MINUTES) is not a number above 0, such as 60"
fi
if [[ ! ${PRELAUNCH_WAIT:-} =~ ^(verdict|started|finished)?$ ]]; then
    refuse "wait (PRELAUNCH_WAIT) is '$PRELAUNCH_WAIT', which is none of verdict, started and finished"
fi
if [[ ! ${PRELAUNCH_CHECK_ONLY:-} =~ ^(true|false)?$ ]]; then
    refuse "check-only (PRELAUNCH_CHECK_ONLY) is '$PRELAUNCH_CHECK_ONLY': write true or false in small letters, or nothing"
fi
if ! type -P -- "${prelaunch[0]:-}" >/dev/null; then
    refuse "the command '${prelaunch[0]:-}' (command, PRELAUNCH) is not there, or is no program"
fi

arguments=(--format json --junit "$out/junit.xml" --summary "$out/summary.md" --html "$out/report.html" --logs "$out/logs.txt")
[[ -n ${PRELAUNCH_WAIT:-} ]] && arguments+=(--wait "$PRELAUNCH_WAIT")
[[ ${PRELAUNCH_CHECK_ONLY:-} == true ]] && arguments+=(--check-only)
[[ -n $minutes ]] && arguments+=(--timeout-minutes "$minutes")
while IFS= read -r line; do
    [[ -n ${line//[[:space:]]/} ]] || continue
    [[ $line == *=* ]] || refuse "set (PRELAUNCH_SETS) has a line '$line', which is not of the form a.b=value"
    arguments+=("--set=$line")
done <<<"${PRELAUNCH_SETS:-}"
if [[ -n $deployment ]]; then
    [[ -n ${PRELAUNCH_ONCE:-} ]] && arguments+=(--once "$PRELAUNCH_ONCE")
    command=("${prelaunch[@]}" run start "$deployment" "${arguments[@]}")
else
    command=("${prelaunch[@]}" gate "$gate" "${arguments[@]}")
    # A gate whose time is up ends itself and its jobs. One that does not answer is told ten seconds later, and killed after five
    # minutes; then the next gate of the cluster ends its jobs.
    [[ -n $minutes ]] && command=(
        timeout --foreground --preserve-status --kill-after=5m "$(awk -v m="$minutes" 'BEGIN { print m * 60 + 10 }')" "${command[@]}"
    )
fi

"${command[@]}" >"$out/prelaunch.json" &
child=$!
[[ -z $told ]] || kill -TERM "$child" 2>/dev/null
# A signal ends `wait` with a number of its own: the command's exit code is what the next one says, unless the first one had it already.
again=
while true; do
    rang=
    wait "$child" 2>/dev/null
    status=$?
    [[ -n $again && $status == 127 ]] || code=$status
    [[ -n $rang && $status -gt 128 ]] || break
    again=1
done
trap - TERM HUP INT

word=$(sed -n 's/^  "decision": "\{0,1\}\([a-z_]*\)"\{0,1\},$/\1/p' "$out/prelaunch.json" | head -n 1)
word=${word/null/}
# Whether its time was up: it ended itself then (3), or was told and killed as one that did not answer.
late=
if [[ -n $minutes && -z $told && $code =~ ^(3|137|143)$ && $word != cannot_tell ]]; then
    late=$(awk -v s="$SECONDS" -v m="$minutes" 'BEGIN { if (s + 1 >= m * 60) print "its time was up after " m " minutes" }')
fi
if [[ -z $word && (! -s $out/summary.md || ! -s $out/prelaunch.json) ]]; then
    if [[ -n $late ]]; then
        write_results CANCELLED "$late, and it had not said anything"
    elif [[ -n $told || $code == 130 || $code == 143 ]]; then
        begun=' before the gate began: nothing was started'
        [[ ! -s $out/summary.md ]] || begun=', and the gate left no result: what it started may still run'
        write_results CANCELLED "cancelled by ${told:-a signal}$begun"
    elif [[ $code == 2 || $code == 126 || $code == 127 ]]; then
        write_results REJECTED "The command '${prelaunch[*]}' could not be run, or refused what it was given (exit code $code). The log of the job says why."
        code=2
    else
        write_results 'CANNOT TELL' "The command '${prelaunch[*]}' ended with exit code $code and left no result."
    fi
fi
[[ -z $late || $code == 3 ]] || code=3
if [[ $code == 0 && ! $word =~ ^(launched|passed|overridden|observed)$ || $code == 1 && -z $word ]]; then
    # What ended without a decision was no gate.
    echo "prelaunch: the command ended with $code and did not say go or no-go: look at what it was given" >&2
    code=3
fi
case $code in
0 | 1) said=$word ;;
2) said=rejected ;;
3) said=${late:-cannot tell} ;;
4) said='training failed' && [[ $word != not_launched ]] || said='training not started' ;;
5) said='no machines, or a service failed' ;;
130 | 143) said=cancelled ;;
*) said=${word:-nothing was decided} ;;
esac
finish "$said"
