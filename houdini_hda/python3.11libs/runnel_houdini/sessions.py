"""Which session belongs to which node.

A session lies in the node's cached user data: it goes with the node, is not saved with the scene,
and a scene that is loaded has none. The number of the node is kept in it, so that a copy of a node
never takes over the session of the original. When a scene is left, no node is told: all sessions
end then, whether or not Houdini lets go of the nodes' data at once.
"""

from __future__ import annotations

import weakref

import hou

from .session import Session

_NAME = "runnel_session"
_alive: weakref.WeakSet[Session] = weakref.WeakSet()


def of(node: hou.OpNode) -> Session:
    """The session of a node; a new one if it has none of its own."""
    kept = node.cachedUserData(_NAME)
    if isinstance(kept, Session) and kept.owner == node.sessionId() and not kept.closed:
        return kept
    session = Session(node.sessionId())
    _alive.add(session)
    if _scene_left not in hou.hipFile.eventCallbacks():
        hou.hipFile.addEventCallback(_scene_left)
    node.setCachedUserData(_NAME, session)
    return session


def existing(node: hou.OpNode) -> Session | None:
    """The session of a node, if it has one."""
    kept = node.cachedUserData(_NAME)
    own = isinstance(kept, Session) and kept.owner == node.sessionId() and not kept.closed
    return kept if own else None


def drop(node: hou.OpNode) -> None:
    """End the session of a node."""
    session = existing(node)
    if session is not None:
        session.close()
    node.destroyCachedUserData(_NAME, must_exist=False)


def _scene_left(event: hou.EnumValue) -> None:
    """File > New, or another scene is loaded."""
    if event in (hou.hipFileEventType.BeforeClear, hou.hipFileEventType.BeforeLoad):
        for session in alive():
            session.close()


def alive() -> list[Session]:
    """All sessions that hold something."""
    return [session for session in _alive if not session.closed]
