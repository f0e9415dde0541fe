"""Diagnosis: finds faults and oddities in a log, by rules over the changes of the ledger."""
