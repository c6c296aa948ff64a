"""The verdict as JUnit XML: one test case per check and subject, and one per check for all subjects that pass it (pure).

A FAIL is a <failure>; one because of missing evidence is an <error>; a check that was skipped, or could not be measured for
an accepted reason, is <skipped>. A WARN passes with its text in <system-out> if the policy lets it through.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from xml.etree import ElementTree as xml

from checks.judge.rules.wording import subjects_text
from checks.model import CLUSTER, Answer, Cause, Finding, Level, Observation, Outcome, Report, Verdict
from checks.model_details import Images
from tasks.render.context import NO_CONTEXT, VerdictContext, advised
from tasks.render.findings import gathered
from tasks.render.headline import headline, sentence
from tasks.text.inert import clean, one_line


def junit(report: Report | None, verdict: Verdict, name: str, context: VerdictContext = NO_CONTEXT) -> str:
    """One test suite; the number of failures and errors is zero only for GO. The property "headline" is the first line."""
    text = one_line(context.first_line, 900) or headline(verdict, name)
    findings: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in verdict.findings:
        findings[finding.check, finding.subject].append(finding)
    results = {(result.check, result.subject): result for result in report.observations} if report else {}
    skipped = {p.check: p.skip.value for p in report.plan if p.skip is not None} if report else {}
    suite = xml.Element("testsuite", name=one_line(f"prelaunch {name}", 200))
    if report:
        suite.set("timestamp", one_line(report.measured_at, 64))
    suite.append(_properties(report, verdict, text, context))
    passed: dict[str, list[Observation]] = defaultdict(list)
    # What nobody measured has a finding of its own.
    for check, subject in dict.fromkeys([*((check, CLUSTER) for check in skipped), *results, *findings]):
        skip = skipped.get(check, "") if subject == CLUSTER else ""
        about, result = findings.get((check, subject), []), results.get((check, subject))
        if result is not None and result.outcome is Outcome.MEASURED and not about and not skip:
            passed[check].append(result)
        else:
            suite.append(_case(check, subject, skip, about, result, verdict, context))
    for check, all_results in passed.items():
        result = replace(all_results[0], seconds=sum(each.seconds for each in all_results))
        subjects = subjects_text([each.subject for each in all_results])
        suite.append(_case(check, subjects, "", [], result, verdict, context))
    if context.failed:
        case = xml.SubElement(suite, "testcase", classname="gate", name="training", time="0.000")
        xml.SubElement(case, "failure", type="training", message=one_line(context.failed, 900))
    _count(suite, text, verdict)
    xml.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(suite, encoding="unicode") + "\n"


def _case(
    check: str,
    subject: str,
    skip: str,
    findings: list[Finding],
    observation: Observation | None,
    verdict: Verdict,
    context: VerdictContext,
) -> xml.Element:
    case = xml.Element("testcase", classname=one_line(check, 200), name=one_line(subject, 200))
    case.set("time", f"{observation.seconds:.3f}" if observation else "0.000")
    worst = findings[0] if findings else None
    failure = next((f for f in findings if f.level is Level.FAIL and f.cause is not Cause.EVIDENCE), None)
    refuses = verdict.answer in (Answer.NO_GO, Answer.ASK) and verdict.level is Level.WARN
    fails = worst is not None and (worst.level is Level.FAIL or refuses)
    reported = failure or (worst if fails else None)
    if reported is not None:
        tag = "failure" if failure or reported.level is not Level.FAIL else "error"
        message = one_line(sentence(gathered((reported,))[0]), 900)
        element = xml.SubElement(case, tag, type=reported.cause.value, message=message)
        element.text = clean(_text(reported, verdict, context))
    elif skip or (observation is not None and observation.outcome is Outcome.SKIPPED):
        reasons = (skip, worst.message if worst else "", observation.reason if observation else "")
        xml.SubElement(case, "skipped", message=one_line(next(filter(None, reasons), "skipped")))
    left = [finding for finding in findings if finding is not reported]
    if left:
        xml.SubElement(case, "system-out").text = clean("\n".join(_text(f, verdict, context) for f in left))
    return case


def _text(finding: Finding, verdict: Verdict, context: VerdictContext) -> str:
    (advice,) = advised(gathered((finding,)), verdict, context)
    item, typed = advice.item, [f"$ {command}" for command in advice.commands]
    lines = (f"{item.heading}: {sentence(item)}", advice.remedy, *typed)
    return "\n".join(filter(None, (*lines, *(text for _, text in item.evidence[:1]))))


def _properties(report: Report | None, verdict: Verdict, line: str, context: VerdictContext) -> xml.Element:
    properties = xml.Element("properties")
    values = [("headline", line), ("answer", verdict.answer.value)]
    values += [("training", context.about_training)] if context.about_training else []
    values += [("own_decision", one_line(context.own_decision, 1200))] if context.own_decision else []
    if report is not None:
        values += [
            ("gate_id", report.gate_id),
            ("instance_type", report.declared.instance_type),
            ("profile", report.profile.value),
        ]
        images = context.images or report.images or Images()
        pairs = (("image.checks", images.checks), ("image.training", images.training))
        values += [(name, image) for name, image in pairs if image]
        values += [("raised", ", ".join(report.raised))] if report.raised else []
    digests = (
        ("report", verdict.digests.report),
        ("policy", verdict.digests.policy),
        ("facts", verdict.digests.facts),
    )
    values += [(f"digest.{name}", digest) for name, digest in digests]
    for name, value in values:
        xml.SubElement(properties, "property", name=name, value=one_line(value, 900))
    return properties


def _count(suite: xml.Element, line: str, verdict: Verdict) -> None:
    if verdict.answer is not Answer.GO and not suite.findall("testcase/failure") + suite.findall(
        "testcase/error"
    ):
        case = xml.SubElement(suite, "testcase", classname="verdict", name=CLUSTER, time="0.000")
        xml.SubElement(case, "error", type="verdict", message=line)
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")
