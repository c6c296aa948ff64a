"""The picture of a report on its way to a page: drawn where it can be, and where not, why."""

from __future__ import annotations

from dataclasses import replace

from tasks.notifiers.base import Page
from tasks.outcome import Outcome
from tasks.render.picture import PictureUnavailable, picture
from tasks.session import Session


def pictured(session: Session, outcome: Outcome, page: Page) -> Page:
    """The page with its picture, where some way to tell people can show one."""
    notify, judged = session.setting.gate.notify, outcome.judged
    if judged is None or not {"slack", "apprise"} & set(notify.ways):
        return page
    try:
        drawn = picture(judged.report, judged.verdict, session.setting.gate.name, judged.beside)
    except PictureUnavailable as error:
        return replace(page, no_picture=str(error))
    return replace(page, picture=drawn)
